/**
 * One issue of GitHub, and the ticket that it is under the rules of the moment.
 *
 * An issue is open or closed and no more than that; the rest of its states are labels. Those that the configuration
 * names as states are the ticket's state, all others are its labels.
 */
import type { TrackedTicket } from '../../core/ports.ts'
import { normalizeName } from '../../core/tickets/names.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { LABELS_MAX, PROSE_CHARS_MAX, TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Ticket } from '../../protocol/run.ts'
import {
  asCount,
  asInstant,
  asLink,
  asList,
  asPositiveInteger,
  asText,
  readField,
} from '../codehost/github/fields.ts'

export const OPEN_STATE = 'Open'
export const CLOSED_STATE = 'Closed'

export interface GithubIssue {
  /** owner/name, as configured: it stays when the repository is renamed. */
  readonly remote: string
  readonly number: number
  readonly title: string
  readonly body: string
  readonly url: string
  readonly isOpen: boolean
  readonly labels: readonly string[]
  readonly assignees: readonly string[]
  readonly createdAt: string
  readonly updatedAt: string
  /** How many others GitHub itself knows it to wait for. */
  readonly blockerCount: number
}

/** undefined: it is none, or a pull request, which GitHub lists among them. */
export function toGithubIssue(value: unknown, remote: string): GithubIssue | undefined {
  const number = asPositiveInteger(readField(value, 'number'))
  const createdAt = asInstant(readField(value, 'created_at'))
  if (number === undefined || createdAt === undefined) return undefined
  if ((readField(value, 'pull_request') ?? null) !== null) return undefined
  return {
    remote,
    number,
    title: asText(readField(value, 'title'), TEXT_CHARS_MAX),
    body: asText(readField(value, 'body'), PROSE_CHARS_MAX),
    url: asLink(readField(value, 'html_url')) ?? '',
    isOpen: readField(value, 'state') !== 'closed',
    labels: readLabels(readField(value, 'labels')),
    assignees: readNames(readField(value, 'assignees'), 'login'),
    createdAt,
    updatedAt: asInstant(readField(value, 'updated_at')) ?? createdAt,
    blockerCount: asCount(readField(value, 'issue_dependencies_summary', 'total_blocked_by')),
  }
}

/** GitHub has some as names, most as objects. */
function readLabels(labels: unknown): string[] {
  return asList(labels)
    .map((label) => asText(typeof label === 'string' ? label : readField(label, 'name')))
    .filter((name) => name !== '')
    .slice(0, LABELS_MAX)
}

function readNames(items: unknown, key: string): string[] {
  return asList(items)
    .map((item) => asText(readField(item, key)))
    .filter((name) => name !== '')
}

// ---- ids ---------------------------------------------------------------------------------------------------------

export interface IssueReference {
  readonly remote: string
  readonly number: number
}

export const formatTicketId = ({ remote, number }: IssueReference): string => `${remote}#${number}`

/** undefined: some other tracker's. */
export function parseTicketId(ticketId: string): IssueReference | undefined {
  const [, remote = '', digits = ''] = /^([^#]+\/[^#]+)#(\d{1,15})$/.exec(ticketId) ?? []
  return remote === '' || Number(digits) < 1 ? undefined : { remote, number: Number(digits) }
}

// ---- states ------------------------------------------------------------------------------------------------------

/** What the configuration says of states, and where tickets have been moved to besides. */
export interface StateNameSources {
  readonly rules: ServiceConfig['tracker']['eligible']
  readonly startedState?: string | undefined
  readonly reviewState?: string | undefined
  readonly moveTargets?: readonly string[]
}

/**
 * The labels that are states, the furthest first: between a move's two requests an issue has both, and is where it
 * goes to.
 */
export function listStateNames({
  rules,
  startedState,
  reviewState,
  moveTargets: targets = [],
}: StateNameSources): readonly string[] {
  const configured = [reviewState, startedState, ...rules.states].map((name) => normalizeName(name ?? ''))
  const others = targets.map(normalizeName).filter((name) => !configured.includes(name))
  return [...new Set([...others, ...configured])].filter(
    (name) => name !== '' && name !== normalizeName(OPEN_STATE),
  )
}

export function findStateLabels(
  { labels }: Pick<GithubIssue, 'labels'>,
  names: readonly string[],
): readonly string[] {
  const ranks = new Map(names.map((name, index) => [name, index]))
  const rankOf = (label: string) => ranks.get(normalizeName(label)) ?? Number.POSITIVE_INFINITY
  return labels.filter((label) => ranks.has(normalizeName(label))).sort((a, b) => rankOf(a) - rankOf(b))
}

// ---- the ticket --------------------------------------------------------------------------------------------------

export interface GithubTicketOptions {
  readonly stateNames: readonly string[]
  /** Of several assignees the one who is asked for. */
  readonly assignees: readonly string[]
  readonly identifier: string
  readonly blockedBy: readonly string[]
}

export function toTrackedTicket(issue: GithubIssue, options: GithubTicketOptions): TrackedTicket {
  const states = findStateLabels(issue, options.stateNames)
  const assignee = pickAssignee(issue, options.assignees)
  const ticket: Ticket = {
    id: formatTicketId(issue),
    identifier: options.identifier,
    title: issue.title,
    description: issue.body,
    url: issue.url,
    // A closed one that is opened again has come into its state anew, whatever its labels.
    state: issue.isOpen ? (states[0] ?? OPEN_STATE) : CLOSED_STATE,
    priority: readPriority(issue.labels),
    labels: issue.labels.filter((label) => !states.includes(label)),
    ...(assignee === undefined ? {} : { assignee }),
    project: issue.remote,
    blockedBy: options.blockedBy.slice(0, LABELS_MAX),
    createdAt: issue.createdAt,
    updatedAt: issue.updatedAt,
  }
  return { ticket, closed: !issue.isOpen }
}

function pickAssignee({ assignees }: GithubIssue, wanted: readonly string[]): string | undefined {
  const names = new Set(wanted.map(normalizeName))
  return assignees.find((login) => names.has(normalizeName(login))) ?? assignees[0]
}

// ---- priorities --------------------------------------------------------------------------------------------------

type Priority = Ticket['priority']

const PRIORITIES: Readonly<Record<string, Priority>> = {
  p0: 1,
  p1: 1,
  p2: 2,
  p3: 3,
  p4: 4,
  0: 1,
  1: 1,
  2: 2,
  3: 3,
  4: 4,
  urgent: 1,
  critical: 1,
  blocker: 1,
  highest: 1,
  high: 2,
  medium: 3,
  normal: 3,
  low: 4,
  lowest: 4,
}
/** Words that mean nothing else where they stand alone. */
const PRIORITY_WORD = /^(?:p[0-4]|urgent|critical)$/
const PRIORITY_PREFIX = /^prio(?:rity)?[ :/_-]{1,3}([a-z0-9]+)$/
const PRIORITY_SUFFIX = /^([a-z]+)[ _-]prio(?:rity)?$/

/** `priority: high`, `P1`, `urgent`, `low priority`: the most urgent of them. */
function readPriority(labels: readonly string[]): Priority {
  const found = labels.flatMap((label) => parsePriorityLabel(normalizeName(label)) ?? [])
  return found.reduce<Priority>((best, next) => (best === 0 || next < best ? next : best), 0)
}

function parsePriorityLabel(label: string): Priority | undefined {
  const word = PRIORITY_WORD.test(label)
    ? label
    : (PRIORITY_PREFIX.exec(label)?.[1] ?? PRIORITY_SUFFIX.exec(label)?.[1] ?? '')
  return Object.hasOwn(PRIORITIES, word) ? PRIORITIES[word] : undefined
}
