/**
 * Moves issues, attaches links to them and comments on them.
 *
 * A target state belongs to the issue's team and is given by name or id. The states of a team are cached, and read
 * again before a state counts as missing.
 */
import type { Clock } from '../../../core/ports/clock.ts'
import type { TicketComment } from '../../../core/ports/tracker.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { formatNames, isSameName } from '../../../core/tickets/names.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { readField, readList, readText } from '../../http/reply-fields.ts'
import { refuseMovedTicket } from '../tracker-driver.ts'
import type { LinearClient } from './client.ts'
import { CLOSED_TYPES, isUuid } from './issue.ts'

const STATES_CACHE_MS = 10 * 60_000
const STATES_MAX = 100
const TEAMS_MAX = 200
const TITLE_CHARS_MAX = 255
const IDENTIFIER = /^[A-Za-z0-9]{1,16}-\d{1,12}$/

const ISSUE_QUERY = `
  query Whereabouts($id: String!) {
    issue(id: $id) { id identifier state { id name type } team { id key } }
  }`
const STATES_QUERY = `
  query TeamStates($team: ID!) {
    workflowStates(first: ${STATES_MAX}, filter: { team: { id: { eq: $team } } }) {
      nodes { id name type position }
    }
  }`
const MOVE_MUTATION = `
  mutation MoveIssue($id: String!, $stateId: String!) {
    issueUpdate(id: $id, input: { stateId: $stateId }) { success issue { id state { id name type } } }
  }`
const ATTACH_MUTATION = `
  mutation Attach($issueId: String!, $url: String!, $title: String!) {
    attachmentCreate(input: { issueId: $issueId, url: $url, title: $title }) { success attachment { id } }
  }`

const COMMENTED_QUERY = `
  query Commented($id: String!, $key: String!) {
    issue(id: $id) { comments(first: 1, filter: { body: { contains: $key } }) { nodes { id } } }
  }`
const COMMENT_MUTATION = `
  mutation Comment($issueId: String!, $body: String!) {
    commentCreate(input: { issueId: $issueId, body: $body }) { success comment { id } }
  }`

export interface MovedIssue {
  readonly id: string
  readonly state: string
  readonly closed: boolean
}

export interface WorkflowState {
  readonly id: string
  readonly name: string
  readonly type: string
}

export interface LinearTeam {
  readonly id: string
  readonly key: string
}

interface IssueWithTeam {
  readonly id: string
  readonly identifier: string
  readonly state: WorkflowState
  readonly team: LinearTeam
}

export class LinearMutations {
  readonly #client: LinearClient
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #states = new Map<string, { readonly at: number; readonly states: readonly WorkflowState[] }>()

  constructor(client: LinearClient, clock: Pick<Clock, 'monotonic'>) {
    this.#client = client
    this.#clock = clock
  }

  /** Repeating a move is harmless: an issue already in the state stays there. */
  async move(ticketId: string, state: string, from?: readonly string[]): Promise<Result<MovedIssue>> {
    const found = await this.#readIssue(ticketId)
    if (!found.ok) return found
    const { id, team, identifier, state: current } = found.value
    if (matchesState(current, state)) return yes(toMovedIssue(id, current))
    if (!isMovable(current, from)) return refuseMovedTicket(identifier, current.name)
    const target = await this.#findState(team, state)
    if (!target.ok) return target
    const reply = await this.#client.send({
      document: MOVE_MUTATION,
      variables: { id, stateId: target.value.id },
      urgency: 'background',
      writes: true,
    })
    if (!reply.ok) return reply
    if (readField(reply.value.data, 'issueUpdate', 'success') !== true) {
      return no('failed', `Linear did not move ${printable(identifier)}and gave no reason; try again`)
    }
    return yes(toMovedIssue(id, target.value))
  }

  /** Attachments are keyed by URL: attaching a link again only changes the title. */
  async attach(ticketId: string, url: string, title: string): Promise<Result<void>> {
    if (!isTicketId(ticketId)) return refuseUnknownIssue(ticketId)
    const reply = await this.#client.send({
      document: ATTACH_MUTATION,
      variables: { issueId: ticketId, url, title: [...title].slice(0, TITLE_CHARS_MAX).join('') || url },
      urgency: 'background',
      writes: true,
    })
    if (!reply.ok) return reply
    if (readField(reply.value.data, 'attachmentCreate', 'success') === true) return yes(undefined)
    return no('failed', 'Linear did not accept the link to the pull request and gave no reason')
  }

  /** An issue that already has a comment with the key gets no other. */
  async comment(ticketId: string, { key, text }: TicketComment): Promise<Result<void>> {
    if (!isTicketId(ticketId)) return refuseUnknownIssue(ticketId)
    const read = await this.#client.send({
      document: COMMENTED_QUERY,
      variables: { id: ticketId, key },
      urgency: 'background',
    })
    if (!read.ok) return read.refusal.kind === 'unknown' ? refuseUnknownIssue(ticketId) : read
    if (readList(read.value.data, 'issue', 'comments', 'nodes').length > 0) return yes(undefined)
    const reply = await this.#client.send({
      document: COMMENT_MUTATION,
      variables: { issueId: ticketId, body: text },
      urgency: 'background',
      writes: true,
    })
    if (!reply.ok) return reply
    if (readField(reply.value.data, 'commentCreate', 'success') === true) return yes(undefined)
    return no('failed', 'Linear did not accept the comment and gave no reason')
  }

  async #readIssue(ticketId: string): Promise<Result<IssueWithTeam>> {
    if (!isTicketId(ticketId)) return refuseUnknownIssue(ticketId)
    const reply = await this.#client.send({
      document: ISSUE_QUERY,
      variables: { id: ticketId },
      urgency: 'background',
    })
    if (!reply.ok) return reply.refusal.kind === 'unknown' ? refuseUnknownIssue(ticketId) : reply
    const issue = readField(reply.value.data, 'issue')
    const [id, identifier] = [readText(issue, 'id'), readText(issue, 'identifier')]
    const [state, team] = [readIssueState(issue), readTeam(issue)]
    if (id === undefined || identifier === undefined || state === undefined || team === undefined) {
      return no('failed', `Linear's reply does not hold the issue ${printable(ticketId)}`)
    }
    return yes({ id, identifier, state, team })
  }

  /** The team's states by their position in the workflow, perhaps from the cache. */
  async listStates(team: LinearTeam): Promise<Result<readonly WorkflowState[]>> {
    const known = this.#knownStates(team)
    return known.length > 0 ? yes(known) : this.#readStates(team)
  }

  #knownStates(team: LinearTeam): readonly WorkflowState[] {
    const cached = this.#states.get(team.id)
    return cached !== undefined && this.#clock.monotonic() - cached.at < STATES_CACHE_MS ? cached.states : []
  }

  async #findState(team: LinearTeam, wanted: string): Promise<Result<WorkflowState>> {
    const found = this.#knownStates(team).find((state) => matchesState(state, wanted))
    if (found !== undefined) return yes(found)
    const read = await this.#readStates(team)
    if (!read.ok) return read
    const fresh = read.value.find((state) => matchesState(state, wanted))
    if (fresh !== undefined) return yes(fresh)
    const names = formatNames(read.value.map(({ name }) => name))
    return no('invalid', `the team ${printable(team.key)} has no state ${printable(wanted)}; it has ${names}`)
  }

  async #readStates(team: LinearTeam): Promise<Result<readonly WorkflowState[]>> {
    const reply = await this.#client.send({
      document: STATES_QUERY,
      variables: { team: team.id },
      urgency: 'background',
    })
    if (!reply.ok) return reply
    const nodes = readList(reply.value.data, 'workflowStates', 'nodes')
    const states = nodes
      .toSorted((a, b) => readPosition(a) - readPosition(b))
      .flatMap((node) => readState(node) ?? [])
    if (this.#states.size >= TEAMS_MAX) this.#states.clear()
    this.#states.set(team.id, { at: this.#clock.monotonic(), states })
    return yes(states)
  }
}

const isTicketId = (text: string): boolean => isUuid(text) || IDENTIFIER.test(text)

/** A closed issue moves only when `from` names its state. */
function isMovable(state: WorkflowState, from: readonly string[] | undefined): boolean {
  return from?.some((expected) => matchesState(state, expected)) ?? !CLOSED_TYPES.includes(state.type)
}

const matchesState = ({ id, name }: WorkflowState, wanted: string): boolean =>
  id === wanted || isSameName(name, wanted)

const toMovedIssue = (id: string, { name, type }: WorkflowState): MovedIssue => ({
  id,
  state: name,
  closed: CLOSED_TYPES.includes(type),
})

function refuseUnknownIssue(ticketId: string) {
  return no('unknown', `Linear has no issue ${printable(ticketId)}, or the account may not see it`)
}

const readIssueState = (issue: unknown): WorkflowState | undefined => readState(readField(issue, 'state'))

function readState(state: unknown): WorkflowState | undefined {
  const [id, name, type = ''] = [readText(state, 'id'), readText(state, 'name'), readText(state, 'type')]
  return id === undefined || name === undefined ? undefined : { id, name, type }
}

function readPosition(state: unknown): number {
  const position = readField(state, 'position')
  return typeof position === 'number' ? position : 0
}

function readTeam(issue: unknown): LinearTeam | undefined {
  const [id, key = ''] = [readText(issue, 'team', 'id'), readText(issue, 'team', 'key')]
  return id === undefined ? undefined : { id, key }
}
