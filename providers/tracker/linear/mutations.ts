/**
 * Moving issues, and hanging links on them.
 *
 * A state is one of the issue's own team, by its name or its id. Which states a team has is asked seldom, and once more
 * before one is said not to be there.
 */
import type { Clock } from '../../../core/ports.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { formatNames, isSameName } from '../../../core/tickets/names.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { elsewhere } from '../moved-error.ts'
import type { LinearDesk } from './client.ts'
import { isUuid } from './eligible-filter.ts'
import { at, listAt, textAt } from './fields.ts'
import { CLOSED_TYPES } from './issue.ts'

const STATES_MS = 10 * 60_000
const STATES_MAX = 100
const TEAMS_MAX = 200
const TITLE_CHARS_MAX = 255
const IDENTIFIER = /^[A-Za-z0-9]{1,16}-\d{1,12}$/

const WHERE = `
  query Whereabouts($id: String!) {
    issue(id: $id) { id identifier state { id name type } team { id key } }
  }`
const STATES = `
  query TeamStates($team: ID!) {
    workflowStates(first: ${STATES_MAX}, filter: { team: { id: { eq: $team } } }) {
      nodes { id name type position }
    }
  }`
const MOVE = `
  mutation MoveIssue($id: String!, $stateId: String!) {
    issueUpdate(id: $id, input: { stateId: $stateId }) { success issue { id state { id name type } } }
  }`
const ATTACH = `
  mutation Attach($issueId: String!, $url: String!, $title: String!) {
    attachmentCreate(input: { issueId: $issueId, url: $url, title: $title }) { success attachment { id } }
  }`

export interface MovedTo {
  readonly id: string
  readonly state: string
  readonly closed: boolean
}

interface State {
  readonly id: string
  readonly name: string
  readonly type: string
}

interface Team {
  readonly id: string
  readonly key: string
}

interface Whereabouts {
  readonly id: string
  readonly identifier: string
  readonly state: State
  readonly team: Team
}

export class LinearMoves {
  readonly #desk: LinearDesk
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #states = new Map<string, { readonly at: number; readonly states: readonly State[] }>()

  constructor(desk: LinearDesk, clock: Pick<Clock, 'monotonic'>) {
    this.#desk = desk
    this.#clock = clock
  }

  /** An answer that got lost is asked for again by moving it again: where it is then, it stays. */
  async move(ticketId: string, state: string, from?: readonly string[]): Promise<Result<MovedTo>> {
    const found = await this.#find(ticketId)
    if (!found.ok) return found
    const { id, team, identifier, state: now } = found.value
    if (isMeant(now, state)) return yes(movedTo(id, now))
    if (!mayLeave(now, from)) return elsewhere(identifier, now.name)
    const target = await this.#stateOf(team, state)
    if (!target.ok) return target
    const asked = await this.#desk.ask({
      document: MOVE,
      variables: { id, stateId: target.value.id },
      urgency: 'background',
      writes: true,
    })
    if (!asked.ok) return asked
    if (at(asked.value.data, 'issueUpdate', 'success') !== true) {
      return no('failed', `Linear did not move ${printable(identifier)}, and says no reason; try again`)
    }
    return yes(movedTo(id, target.value))
  }

  /** The address is what the attachment is known by: a second one of it only changes the first one's title. */
  async attach(ticketId: string, url: string, title: string): Promise<Result<void>> {
    if (!isTicketId(ticketId)) return unknown(ticketId)
    const asked = await this.#desk.ask({
      document: ATTACH,
      variables: { issueId: ticketId, url, title: [...title].slice(0, TITLE_CHARS_MAX).join('') || url },
      urgency: 'background',
      writes: true,
    })
    if (!asked.ok) return asked
    if (at(asked.value.data, 'attachmentCreate', 'success') === true) return yes(undefined)
    return no('failed', 'Linear did not take the link to the pull request, and says no reason')
  }

  async #find(ticketId: string): Promise<Result<Whereabouts>> {
    if (!isTicketId(ticketId)) return unknown(ticketId)
    const asked = await this.#desk.ask({
      document: WHERE,
      variables: { id: ticketId },
      urgency: 'background',
    })
    if (!asked.ok) return asked.refusal.kind === 'unknown' ? unknown(ticketId) : asked
    const issue = at(asked.value.data, 'issue')
    const [id, identifier] = [textAt(issue, 'id'), textAt(issue, 'identifier')]
    const [state, team] = [stateAt(issue), teamAt(issue)]
    if (id === undefined || identifier === undefined || state === undefined || team === undefined) {
      return no('failed', `Linear answered something else than the issue ${printable(ticketId)}`)
    }
    return yes({ id, identifier, state, team })
  }

  async #stateOf(team: Team, wanted: string): Promise<Result<State>> {
    const cached = this.#states.get(team.id)
    const known = cached !== undefined && this.#clock.monotonic() - cached.at < STATES_MS ? cached.states : []
    const found = known.find((one) => isMeant(one, wanted))
    if (found !== undefined) return yes(found)
    const read = await this.#readStates(team)
    if (!read.ok) return read
    const fresh = read.value.find((one) => isMeant(one, wanted))
    if (fresh !== undefined) return yes(fresh)
    const names = formatNames(read.value.map(({ name }) => name))
    return no('invalid', `the team ${printable(team.key)} has no state ${printable(wanted)}; it has ${names}`)
  }

  async #readStates(team: Team): Promise<Result<readonly State[]>> {
    const asked = await this.#desk.ask({
      document: STATES,
      variables: { team: team.id },
      urgency: 'background',
    })
    if (!asked.ok) return asked
    const nodes = listAt(asked.value.data, 'workflowStates', 'nodes')
    const states = nodes
      .toSorted((a, b) => positionOf(a) - positionOf(b))
      .flatMap((one) => stateOf(one) ?? [])
    if (this.#states.size >= TEAMS_MAX) this.#states.clear()
    this.#states.set(team.id, { at: this.#clock.monotonic(), states })
    return yes(states)
  }
}

const isTicketId = (text: string): boolean => isUuid(text) || IDENTIFIER.test(text)

/** Closed ones are left alone unless they are named. */
function mayLeave(now: State, from: readonly string[] | undefined): boolean {
  return from?.some((one) => isMeant(now, one)) ?? !CLOSED_TYPES.includes(now.type)
}

const isMeant = ({ id, name }: State, wanted: string): boolean => id === wanted || isSameName(name, wanted)

const movedTo = (id: string, { name, type }: State): MovedTo => ({
  id,
  state: name,
  closed: CLOSED_TYPES.includes(type),
})

function unknown(ticketId: string) {
  return no('unknown', `Linear has no issue ${printable(ticketId)}, or the account may not see it`)
}

const stateAt = (issue: unknown): State | undefined => stateOf(at(issue, 'state'))

function stateOf(state: unknown): State | undefined {
  const [id, name, type = ''] = [textAt(state, 'id'), textAt(state, 'name'), textAt(state, 'type')]
  return id === undefined || name === undefined ? undefined : { id, name, type }
}

function positionOf(state: unknown): number {
  const position = at(state, 'position')
  return typeof position === 'number' ? position : 0
}

function teamAt(issue: unknown): Team | undefined {
  const [id, key = ''] = [textAt(issue, 'team', 'id'), textAt(issue, 'team', 'key')]
  return id === undefined ? undefined : { id, key }
}
