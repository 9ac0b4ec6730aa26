/**
 * Decides where a new ticket is put: into the first eligible state, or where it is not eligible.
 *
 * A new ticket has all the properties that the eligibility rules ask for, so a poll finds it eligible as well: a host
 * that stops right after the creation loses nothing.
 */
import type { Ticket } from '../../protocol/run.ts'
import type { NewTicket } from '../ports/tracker.ts'
import { no, type Result, yes } from '../result.ts'
import { isSameName } from './names.ts'
import { chooseRepo, type RepoChoice } from './repo.ts'

export interface NewTicketPlace {
  /** Undefined: the tracker's own choice. */
  readonly state: string | undefined
  readonly labels: readonly string[]
  readonly project: string | undefined
  readonly assignee: string | undefined
}

/** `idleState`: the state in which the tracker's tickets wait, such as `Backlog`. */
export function placeNewTicket(ticket: NewTicket, idleState: string): Result<NewTicketPlace> {
  return ticket.isEligible ? yes(eligiblePlace(ticket)) : idlePlace(ticket, idleState)
}

/** The project that the mapping of the repository, or else the rules, ask for; undefined: none. */
export function projectOf({ repo, rules }: Pick<NewTicket, 'repo' | 'rules'>): string | undefined {
  return repo?.mapping.trackerProject ?? rules.projects[0]
}

function eligiblePlace(ticket: NewTicket): NewTicketPlace {
  const { labels, rules } = ticket
  const [label] = rules.labels
  const isLabelled = label === undefined || labels.some((name) => includesName(rules.labels, name))
  return {
    state: rules.states[0],
    labels: uniqueNames(isLabelled ? labels : [...labels, label]),
    project: projectOf(ticket),
    assignee: rules.assignees[0],
  }
}

function idlePlace(ticket: NewTicket, idleState: string): Result<NewTicketPlace> {
  const { labels, rules } = ticket
  const place = { state: idleState, project: projectOf(ticket), assignee: undefined }
  const isIdleByState = rules.states.length > 0 && !includesName(rules.states, idleState)
  if (isIdleByState) return yes({ ...place, labels: uniqueNames(labels) })
  if (rules.labels.length === 0) return ALWAYS_ELIGIBLE
  return yes({ ...place, labels: uniqueNames(labels.filter((name) => !includesName(rules.labels, name))) })
}

const ALWAYS_ELIGIBLE = no(
  'conflict',
  'every new ticket would be eligible, so none can wait: set tracker.eligible.states or tracker.eligible.labels, or send "start": true',
)

const includesName = (names: readonly string[], name: string): boolean =>
  names.some((candidate) => isSameName(candidate, name))

const uniqueNames = (names: readonly string[]): string[] =>
  names.filter((name, index) => names.findIndex((earlier) => isSameName(earlier, name)) === index)

/** Chooses the repository that such a ticket would have, before it exists. */
export function chooseRepoFor(
  { title, repos }: Pick<NewTicket, 'title' | 'repos'>,
  { labels, project }: Pick<NewTicketPlace, 'labels' | 'project'>,
): Result<RepoChoice> {
  const named = { identifier: title, title, labels: [...labels] }
  return chooseRepo({ ...UNCREATED, ...named, ...(project === undefined ? {} : { project }) }, repos)
}

const UNCREATED: Ticket = {
  id: 'new',
  identifier: 'new',
  title: '',
  description: '',
  url: '',
  state: '',
  priority: 0,
  labels: [],
  blockedBy: [],
  createdAt: '',
  updatedAt: '',
}
