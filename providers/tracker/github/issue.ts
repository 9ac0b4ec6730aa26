/**
 * Converts a GitHub issue into a ticket under the current rules.
 *
 * GitHub knows open and closed only, so further states are labels. Labels that the configuration names as states become
 * the ticket's state; the others stay labels.
 */
import type { TrackedTicket } from '../../../core/ports/tracker.ts'
import { steadyTitle } from '../../../core/safe-text.ts'
import { normalizeName } from '../../../core/tickets/names.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import { LABELS_MAX, PROSE_CHARS_MAX, TEXT_CHARS_MAX } from '../../../protocol/limits.ts'
import type { Ticket } from '../../../protocol/run.ts'
import {
  asCount,
  asInstant,
  asLink,
  asList,
  asPositiveInteger,
  asText,
  mayWrite,
  readLogin,
} from '../../github/fields.ts'
import { readField } from '../../http/reply-fields.ts'

export const OPEN_STATE = 'Open'
export const CLOSED_STATE = 'Closed'

export interface GithubIssue {
  /** `owner/name` as configured, which stays when the repository is renamed. */
  readonly remote: string
  readonly number: number
  readonly title: string
  readonly body: string
  readonly url: string
  readonly isOpen: boolean
  readonly labels: readonly string[]
  readonly assignees: readonly string[]
  readonly author: string
  readonly authorMayWrite: boolean
  readonly createdAt: string
  readonly updatedAt: string
  /** Number of blockers that GitHub itself has recorded. */
  readonly blockerCount: number
}

/** Undefined when the value is not an issue; GitHub lists pull requests among issues. */
export function toGithubIssue(value: unknown, remote: string): GithubIssue | undefined {
  const number = asPositiveInteger(readField(value, 'number'))
  const createdAt = asInstant(readField(value, 'created_at'))
  if (number === undefined || createdAt === undefined) return undefined
  if ((readField(value, 'pull_request') ?? null) !== null) return undefined
  return {
    remote,
    number,
    title: steadyTitle(asText(readField(value, 'title'), TEXT_CHARS_MAX)),
    body: asText(readField(value, 'body'), PROSE_CHARS_MAX),
    url: asLink(readField(value, 'html_url')) ?? '',
    isOpen: readField(value, 'state') !== 'closed',
    labels: readLabels(readField(value, 'labels')),
    assignees: readNames(readField(value, 'assignees'), 'login'),
    author: readLogin(readField(value, 'user')),
    authorMayWrite: mayWrite(readField(value, 'author_association')),
    createdAt,
    updatedAt: asInstant(readField(value, 'updated_at')) ?? createdAt,
    blockerCount: asCount(readField(value, 'issue_dependencies_summary', 'total_blocked_by')),
  }
}

/** GitHub sends labels as objects or as names. */
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

// ---- ids ------------------------------------------------------------------------------------------------------------

export interface IssueReference {
  readonly remote: string
  readonly number: number
}

export const formatTicketId = ({ remote, number }: IssueReference): string => `${remote}#${number}`

/** Undefined for an id of another tracker. */
export function parseTicketId(ticketId: string): IssueReference | undefined {
  const [, remote = '', digits = ''] = /^([^#]+\/[^#]+)#(\d{1,15})$/.exec(ticketId) ?? []
  return remote === '' || Number(digits) < 1 ? undefined : { remote, number: Number(digits) }
}

// ---- states ---------------------------------------------------------------------------------------------------------

/** Sources of state names: the configuration and the targets of recent moves. */
export interface StateNameSources {
  readonly rules: ServiceConfig['tracker']['eligible']
  readonly startedState?: string | undefined
  readonly reviewState?: string | undefined
  readonly doneState?: string | undefined
  readonly releasedState?: string | undefined
  readonly moveTargets?: readonly string[]
}

/**
 * Lists the labels that are states, the most advanced first. During a move an issue has two of them, and the first one
 * is its target.
 */
export function listStateNames({
  rules,
  startedState,
  reviewState,
  doneState,
  releasedState,
  moveTargets = [],
}: StateNameSources): readonly string[] {
  const targets = [doneState, reviewState, startedState, releasedState]
  const configured = [...targets, ...rules.states].map((name) => normalizeName(name ?? ''))
  const others = moveTargets.map(normalizeName).filter((name) => !configured.includes(name))
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

// ---- the ticket -----------------------------------------------------------------------------------------------------

export interface GithubTicketOptions {
  readonly stateNames: readonly string[]
  /** Names from the eligibility rules; a matching assignee is preferred. */
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
    // A reopened issue takes its state from its labels again.
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

// ---- priorities -----------------------------------------------------------------------------------------------------

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
/** Unambiguous labels that count without a prefix. */
const PRIORITY_WORD = /^(?:p[0-4]|urgent|critical)$/
const PRIORITY_PREFIX = /^prio(?:rity)?[ :/_-]{1,3}([a-z0-9]+)$/
const PRIORITY_SUFFIX = /^([a-z]+)[ _-]prio(?:rity)?$/

/** Most urgent priority among labels such as `priority: high`, `P1`, `urgent` or `low priority`. */
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
