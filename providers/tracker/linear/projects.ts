/** Linear's projects, for choosing which tickets are eligible. A person waits for them. */
import { type Result, yes } from '../../../core/result.ts'
import { LABELS_MAX, NAME_CHARS_MAX, TRACKER_PROJECTS_MAX, URL_CHARS_MAX } from '../../../protocol/limits.ts'
import { checker } from '../../../protocol/parse.ts'
import { cutToChars } from '../../../protocol/text-budget.ts'
import { TrackerProject } from '../../../protocol/tracker.ts'
import type { LinearDesk } from './client.ts'
import { at, listAt, textAt } from './fields.ts'

const A_PAGE = 100
const TEAMS = 10
const LINK = /^https?:\/\/[^\s]+$/

const PROJECTS = `
  query Projects($first: Int!, $after: String) {
    projects(first: $first, after: $after, orderBy: updatedAt) {
      pageInfo { hasNextPage endCursor }
      nodes { id name slugId url status { name } teams(first: ${TEAMS}) { nodes { name } } }
    }
  }`

const checkProject = checker(TrackerProject)

/** In order of their names; of very many, those that changed last. */
export async function linearProjects(desk: LinearDesk): Promise<Result<readonly TrackerProject[]>> {
  const found = new Map<string, TrackerProject>()
  let after: string | undefined
  for (let pages = 0; pages < TRACKER_PROJECTS_MAX / A_PAGE; pages++) {
    const variables = { first: A_PAGE, ...(after === undefined ? {} : { after }) }
    const asked = await desk.ask({ document: PROJECTS, variables, urgency: 'person' })
    if (!asked.ok) return asked
    const { data } = asked.value
    for (const project of listAt(data, 'projects', 'nodes').flatMap(projectOf)) found.set(project.id, project)
    const hasMore = at(data, 'projects', 'pageInfo', 'hasNextPage') === true
    after = hasMore ? textAt(data, 'projects', 'pageInfo', 'endCursor') : undefined
    if (after === undefined) break
  }
  return yes([...found.values()].sort((a, b) => a.name.localeCompare(b.name, 'en')))
}

/** One that is not as they are is left out: there is nothing to choose about it. */
function projectOf(node: unknown): TrackerProject[] {
  const [key, url, state] = [
    textAt(node, 'slugId'),
    textAt(node, 'url') ?? '',
    textAt(node, 'status', 'name'),
  ]
  const checked = checkProject({
    id: at(node, 'id'),
    name: cutToChars(textAt(node, 'name') ?? '', NAME_CHARS_MAX),
    ...(key === undefined ? {} : { key }),
    ...(LINK.test(url) && url.length <= URL_CHARS_MAX ? { url } : {}),
    ...(state === undefined ? {} : { state: cutToChars(state, NAME_CHARS_MAX) }),
    teams: listAt(node, 'teams', 'nodes')
      .flatMap((team) => textAt(team, 'name') ?? [])
      .map((name) => cutToChars(name, NAME_CHARS_MAX))
      .slice(0, LABELS_MAX),
  })
  return checked.ok ? [checked.value] : []
}
