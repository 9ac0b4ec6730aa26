/** Lists Linear's projects for the choice of eligible tickets, while a person waits. */
import { type Result, yes } from '../../../core/result.ts'
import { LABELS_MAX, NAME_CHARS_MAX, TRACKER_PROJECTS_MAX, URL_CHARS_MAX } from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { truncateToChars } from '../../../protocol/text-budget.ts'
import { TrackerProject } from '../../../protocol/tracker.ts'
import type { LinearClient } from './client.ts'
import { readField, readList, readText } from './fields.ts'

const PROJECTS_PER_PAGE = 100
const TEAMS_PER_PROJECT = 10
const LINK = /^https?:\/\/[^\s]+$/

const PROJECTS_QUERY = `
  query Projects($first: Int!, $after: String) {
    projects(first: $first, after: $after, orderBy: updatedAt) {
      pageInfo { hasNextPage endCursor }
      nodes { id name slugId url status { name } teams(first: ${TEAMS_PER_PROJECT}) { nodes { name } } }
    }
  }`

const checkProject = createChecker(TrackerProject)

/** Sorted by name. Beyond the limit only the most recently changed projects are listed. */
export async function listLinearProjects(client: LinearClient): Promise<Result<readonly TrackerProject[]>> {
  const found = new Map<string, TrackerProject>()
  let after: string | undefined
  for (let pages = 0; pages < TRACKER_PROJECTS_MAX / PROJECTS_PER_PAGE; pages++) {
    const variables = { first: PROJECTS_PER_PAGE, ...(after === undefined ? {} : { after }) }
    const reply = await client.send({ document: PROJECTS_QUERY, variables, urgency: 'person' })
    if (!reply.ok) return reply
    const { data } = reply.value
    for (const project of readList(data, 'projects', 'nodes').flatMap(toProjects))
      found.set(project.id, project)
    const hasMore = readField(data, 'projects', 'pageInfo', 'hasNextPage') === true
    after = hasMore ? readText(data, 'projects', 'pageInfo', 'endCursor') : undefined
    if (after === undefined) break
  }
  return yes([...found.values()].sort((a, b) => a.name.localeCompare(b.name, 'en')))
}

/** A malformed project is left out: nobody could choose it. */
function toProjects(node: unknown): TrackerProject[] {
  const [key, url, state] = [
    readText(node, 'slugId'),
    readText(node, 'url') ?? '',
    readText(node, 'status', 'name'),
  ]
  const checked = checkProject({
    id: readField(node, 'id'),
    name: truncateToChars(readText(node, 'name') ?? '', NAME_CHARS_MAX),
    ...(key === undefined ? {} : { key }),
    ...(LINK.test(url) && url.length <= URL_CHARS_MAX ? { url } : {}),
    ...(state === undefined ? {} : { state: truncateToChars(state, NAME_CHARS_MAX) }),
    teams: readList(node, 'teams', 'nodes')
      .flatMap((team) => readText(team, 'name') ?? [])
      .map((name) => truncateToChars(name, NAME_CHARS_MAX))
      .slice(0, LABELS_MAX),
  })
  return checked.ok ? [checked.value] : []
}
