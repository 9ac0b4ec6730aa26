/**
 * Creates an issue with its state, labels and project in one mutation.
 *
 * Linear wants ids, so names are looked up first. The team is that of the project, or the only team of the account.
 * A label that Linear lacks is refused, because making labels is for the people of the workspace.
 */
import type { NewTicket } from '../../../core/ports/tracker.ts'
import { no, type Refused, type Result, yes } from '../../../core/result.ts'
import { formatNames, isSameName } from '../../../core/tickets/names.ts'
import {
  chooseRepoFor,
  type NewTicketPlace,
  placeNewTicket,
  projectOf,
} from '../../../core/tickets/new-ticket.ts'
import { LABELS_MAX, NAME_CHARS_MAX, TRACKER_PROJECTS_MAX, URL_CHARS_MAX } from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { truncateToChars } from '../../../protocol/text-budget.ts'
import { TrackerProject } from '../../../protocol/tracker.ts'
import { readField, readList, readText } from '../../http/reply-fields.ts'
import type { LinearClient } from './client.ts'
import {
  CLOSED_TYPES,
  equalsName,
  issueFields,
  type LinearFilter,
  type LinearIssue,
  parseIssue,
  personFilters,
  projectFilters,
  USUAL_SIZES,
} from './issue.ts'
import type { LinearMutations, LinearTeam, WorkflowState } from './mutations.ts'

const LABELS_READ_MAX = 250
/** Types of states in which issues wait, the best first. */
const IDLE_TYPES = ['backlog', 'triage', 'unstarted']

const TEAMS_QUERY = 'query OwnTeams { viewer { teams(first: 2) { nodes { id key } } } }'
const PROJECT_QUERY = `
  query NamedProject($filter: ProjectFilter!) {
    projects(first: 1, filter: $filter) { nodes { id name teams(first: 1) { nodes { id key } } } }
  }`
const LABELS_QUERY = `
  query NamedLabels($filter: IssueLabelFilter!) {
    issueLabels(first: ${LABELS_READ_MAX}, filter: $filter) { nodes { id name team { id } } }
  }`
const PERSON_QUERY = `
  query NamedPerson($filter: UserFilter!) { users(first: 1, filter: $filter) { nodes { id } } }`
const CREATE_MUTATION = `
  mutation CreateIssue($input: IssueCreateInput!) {
    issueCreate(input: $input) { success issue { ${issueFields(USUAL_SIZES)} } }
  }`

interface Whereabouts {
  readonly team: LinearTeam
  readonly projectId: string | undefined
}

export class LinearIssueCreator {
  readonly #client: LinearClient
  readonly #mutations: Pick<LinearMutations, 'listStates'>

  constructor(client: LinearClient, mutations: Pick<LinearMutations, 'listStates'>) {
    this.#client = client
    this.#mutations = mutations
  }

  async create(ticket: NewTicket): Promise<Result<LinearIssue>> {
    const project = projectOf(ticket)
    const where = await (project === undefined ? this.#findOwnTeam() : this.#findProject(project))
    if (!where.ok) return where
    const states = await this.#mutations.listStates(where.value.team)
    if (!states.ok) return states
    const place = placeNewTicket(withMappingLabel(ticket), findIdleState(states.value, ticket.rules.states))
    if (!place.ok) return place
    const repo = checkRepo(ticket, place.value)
    if (!repo.ok) return repo
    const input = await this.#buildInput(ticket, place.value, where.value, states.value)
    return input.ok ? this.#send(input.value) : input
  }

  async #buildInput(
    ticket: NewTicket,
    { state, labels, assignee }: NewTicketPlace,
    { team, projectId }: Whereabouts,
    states: readonly WorkflowState[],
  ): Promise<Result<object>> {
    const stateId = ticket.isEligible
      ? findEligibleState(ticket.rules.states, team, states)
      : findState(state, states)
    if (!stateId.ok) return stateId
    const labelIds = await this.#findLabels(labels, ticket, team)
    if (!labelIds.ok) return labelIds
    const assigneeId = assignee === undefined ? yes(undefined) : await this.#findPerson(assignee)
    if (!assigneeId.ok) return assigneeId
    return yes({
      teamId: team.id,
      title: ticket.title,
      description: ticket.description,
      priority: ticket.priority,
      labelIds: labelIds.value,
      ...(stateId.value === undefined ? {} : { stateId: stateId.value }),
      ...(projectId === undefined ? {} : { projectId }),
      ...(assigneeId.value === undefined ? {} : { assigneeId: assigneeId.value }),
    })
  }

  async #send(input: object): Promise<Result<LinearIssue>> {
    const reply = await this.#client.send({
      document: CREATE_MUTATION,
      variables: { input },
      urgency: 'person',
      writes: true,
    })
    if (!reply.ok) return reply
    const created = readField(reply.value.data, 'issueCreate')
    if (readField(created, 'success') !== true)
      return no('failed', 'Linear did not create the issue and gave no reason; try again')
    const parsed = parseIssue(readField(created, 'issue'), USUAL_SIZES)
    return parsed.ok ? yes(parsed.issue) : no('failed', parsed.problem.message)
  }

  // ---- names to ids --------------------------------------------------------------------------------------------------

  async #findOwnTeam(): Promise<Result<Whereabouts>> {
    const data = await this.#ask(TEAMS_QUERY)
    if (!data.ok) return data
    const [team, ...more] = readList(data.value, 'viewer', 'teams', 'nodes').flatMap(toTeam)
    if (team !== undefined && more.length === 0) return yes({ team, projectId: undefined })
    return no(
      'conflict',
      'Linear does not tell which team the issue is for: name a project in tracker.eligible.projects, or as trackerProject of the repository',
    )
  }

  async #findProject(name: string): Promise<Result<Whereabouts>> {
    const data = await this.#ask(PROJECT_QUERY, { or: projectFilters(name) })
    if (!data.ok) return data
    const [project] = readList(data.value, 'projects', 'nodes')
    const [team] = readList(project, 'teams', 'nodes').flatMap(toTeam)
    const projectId = readText(project, 'id')
    return team === undefined || projectId === undefined
      ? no('conflict', `Linear has no project ${printable(name)} with a team, or the account may not see it`)
      : yes({ team, projectId })
  }

  /** A label of the team is preferred to one of the workspace. */
  async #findLabels(
    names: readonly string[],
    ticket: NewTicket,
    team: LinearTeam,
  ): Promise<Result<readonly string[]>> {
    if (names.length === 0) return yes([])
    const isUsable = [{ team: { id: { eq: team.id } } }, { team: { null: true } }]
    const isNamed = names.map((name) => ({ name: equalsName(name) }))
    const data = await this.#ask(LABELS_QUERY, { and: [{ or: isNamed }, { or: isUsable }] })
    if (!data.ok) return data
    const found = readList(data.value, 'issueLabels', 'nodes').toSorted(byTeamFirst)
    const idOf = (name: string) => {
      const label = found.find((node) => isSameName(readText(node, 'name') ?? '', name))
      return readText(label, 'id')
    }
    const missing = names.filter((name) => idOf(name) === undefined)
    return missing.length === 0
      ? yes(names.flatMap((name) => idOf(name) ?? []))
      : refuseLabels(missing, ticket, team)
  }

  async #findPerson(name: string): Promise<Result<string>> {
    const data = await this.#ask(PERSON_QUERY, { or: personFilters(name) })
    if (!data.ok) return data
    const id = readText(readList(data.value, 'users', 'nodes')[0], 'id')
    return id === undefined
      ? no('conflict', `Linear has nobody named ${printable(name)}; correct tracker.eligible.assignees`)
      : yes(id)
  }

  async #ask(document: string, filter?: LinearFilter): Promise<Result<unknown>> {
    const variables = filter === undefined ? {} : { filter }
    const reply = await this.#client.send({ document, variables, urgency: 'person' })
    return reply.ok ? yes(reply.value.data) : reply
  }
}

/** Only labels and projects tell the repository of an issue. */
function withMappingLabel(ticket: NewTicket): NewTicket {
  const label = ticket.repo?.mapping.label
  return label === undefined ? ticket : { ...ticket, labels: [...ticket.labels, label] }
}

/** An issue cannot name its repository, and work in the wrong one is worse than a refusal. */
function checkRepo(ticket: NewTicket, place: NewTicketPlace): Result<void> {
  if (ticket.repo === undefined) return yes(undefined)
  const { key } = ticket.repo
  const choice = chooseRepoFor(ticket, place)
  if (choice.ok && choice.value.key === key) return yes(undefined)
  const reason = choice.ok ? `it would be for ${choice.value.key}` : choice.refusal.message
  return no(
    'conflict',
    `an issue of Linear cannot be for ${printable(key)} (${printable(reason)}): give its mapping a label or a trackerProject of its own`,
  )
}

// ---- states ----------------------------------------------------------------------------------------------------------

/** The name of the best state for waiting; one that is not eligible, if there is one. */
function findIdleState(states: readonly WorkflowState[], eligible: readonly string[]): string {
  const idle = IDLE_TYPES.flatMap((type) => states.filter((state) => state.type === type))
  const isEligible = ({ name }: WorkflowState) => eligible.some((entry) => isSameName(entry, name))
  return (idle.find((state) => !isEligible(state)) ?? idle[0])?.name ?? ''
}

function findState(wanted: string | undefined, states: readonly WorkflowState[]): Result<string | undefined> {
  return yes(states.find(({ name }) => isSameName(name, wanted ?? ''))?.id)
}

/** The first eligible state that the team has; without a rule, the team's own default. */
function findEligibleState(
  names: readonly string[],
  team: LinearTeam,
  states: readonly WorkflowState[],
): Result<string | undefined> {
  if (names.length === 0) return yes(undefined)
  const open = states.filter(({ type }) => !CLOSED_TYPES.includes(type))
  for (const name of names) {
    const found = open.find((state) => isSameName(state.name, name))
    if (found !== undefined) return yes(found.id)
  }
  return no(
    'conflict',
    `the team ${printable(team.key)} has none of the eligible states (${formatNames(names)}); it has ${formatNames(open.map(({ name }) => name))}`,
  )
}

// ---- helpers ---------------------------------------------------------------------------------------------------------

function toTeam(node: unknown): LinearTeam[] {
  const [id, key = ''] = [readText(node, 'id'), readText(node, 'key')]
  return id === undefined ? [] : [{ id, key }]
}

const byTeamFirst = (a: unknown, b: unknown): number => teamRank(a) - teamRank(b)
const teamRank = (label: unknown): number => (readText(label, 'team', 'id') === undefined ? 1 : 0)

/** The request is wrong only when the request itself names the label. */
function refuseLabels(missing: readonly string[], ticket: NewTicket, team: LinearTeam): Refused {
  const isAsked = missing.some((name) => ticket.labels.some((label) => isSameName(label, name)))
  const message = `Linear has no label ${formatNames(missing)} for the team ${printable(team.key)}; create it there`
  return isAsked ? no('invalid', `/labels: ${message}, or leave it out`) : no('conflict', message)
}

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

/**
 * Lists Linear's projects by name for the choice of eligible tickets, while a person waits. Beyond the limit only the
 * most recently changed projects are listed.
 */
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
