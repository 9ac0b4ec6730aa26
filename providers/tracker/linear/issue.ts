/**
 * Converts a Linear issue into a ticket.
 *
 * Texts are cut to the limits of a ticket, so a long description does not cost the ticket. An unknown type of state
 * counts as open: waiting for a blocker in vain is better than ignoring it.
 */
import type { TrackedTicket, TrackerQuery } from '../../../core/ports/tracker.ts'
import { steadyTitle } from '../../../core/safe-text.ts'
import {
  LABELS_MAX,
  NAME_CHARS_MAX,
  PROSE_CHARS_MAX,
  TEXT_CHARS_MAX,
  URL_CHARS_MAX,
} from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { Ticket } from '../../../protocol/run.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { truncateToChars } from '../../../protocol/text-budget.ts'
import { readField, readInstant, readList, readText } from '../../http/reply-fields.ts'

/** Types of workflow states, independent of a team's names. */
export const CLOSED_TYPES: readonly string[] = ['completed', 'canceled', 'duplicate']

export interface LinearIssue {
  readonly tracked: TrackedTicket
  /** Blockers that are not closed. */
  readonly openBlockers: readonly string[]
  /** The issue may have more labels or relations than were requested. */
  readonly isTruncated: boolean
}

/** A problem of an issue, valid for this version of the issue. */
export interface IssueProblem {
  readonly id: string
  readonly updatedAt: string
  readonly message: string
}

export type IssueReadResult =
  | { readonly ok: true; readonly issue: LinearIssue }
  | { readonly ok: false; readonly problem: IssueProblem }

/** Requested lengths of lists, which dominate the cost of a query. */
export interface IssueListSizes {
  readonly labels: number
  readonly relations: number
}

/** A full list may have more items. Requesting page information would cost half as much as the list. */
export function issueFields({ labels, relations }: IssueListSizes): string {
  return `
    id identifier title description priority url branchName createdAt updatedAt archivedAt
    state { name type }
    project { id name slugId }
    assignee { name displayName email isMe }
    labels(first: ${labels}) { nodes { name } }
    inverseRelations(first: ${relations}) { nodes { type issue { id archivedAt state { type } } } }`
}

const checkTicket = createChecker(Ticket)
const LINK = /^https?:\/\/[^\s]+$/

export function parseIssue(node: unknown, sizes: IssueListSizes): IssueReadResult {
  const blockers = readBlockers(node)
  const checked = checkTicket(toTicketFields(node, blockers))
  if (!checked.ok) return { ok: false, problem: toIssueProblem(node, checked.error) }
  const aliases = readAliases(node)
  return {
    ok: true,
    issue: {
      tracked: { ticket: checked.value, closed: isClosed(node), ...(aliases && { aliases }) },
      openBlockers: blockers.filter(({ closed }) => !closed).map(({ id }) => id),
      isTruncated:
        readList(node, 'labels', 'nodes').length >= sizes.labels ||
        readList(node, 'inverseRelations', 'nodes').length >= sizes.relations,
    },
  }
}

/** Archived, or in a closed state. */
export function isClosed(node: unknown): boolean {
  if (typeof readField(node, 'archivedAt') === 'string') return true
  return CLOSED_TYPES.includes(readText(node, 'state', 'type') ?? '')
}

function toTicketFields(node: unknown, blockers: readonly { id: string }[]) {
  const [assignee, project] = [readText(node, 'assignee', 'displayName'), readText(node, 'project', 'name')]
  const branchName = readText(node, 'branchName')
  const url = readText(node, 'url') ?? ''
  return {
    id: readField(node, 'id'),
    identifier: readField(node, 'identifier'),
    title: steadyTitle(truncateToChars(readText(node, 'title') ?? '', TEXT_CHARS_MAX)),
    description: truncateToChars(readText(node, 'description') ?? '', PROSE_CHARS_MAX),
    url: url.length <= URL_CHARS_MAX && LINK.test(url) ? url : '',
    state: truncateName(readText(node, 'state', 'name') ?? ''),
    priority: toPriority(readField(node, 'priority')),
    labels: readList(node, 'labels', 'nodes')
      .flatMap((label) => readText(label, 'name') ?? [])
      .map(truncateName)
      .slice(0, LABELS_MAX)
      // Linear's order varies, and equal labels should give equal tickets.
      .sort(),
    ...(assignee === undefined ? {} : { assignee: truncateName(assignee) }),
    ...(project === undefined ? {} : { project: truncateName(project) }),
    ...(branchName === undefined || branchName.length > NAME_CHARS_MAX ? {} : { branchName }),
    blockedBy: blockers.map(({ id }) => id).slice(0, LABELS_MAX),
    createdAt: readInstant(node, 'createdAt'),
    updatedAt: readInstant(node, 'updatedAt'),
  }
}

const truncateName = (text: string): string => truncateToChars(text, NAME_CHARS_MAX)

/** 0 none, 1 urgent … 4 low, as in a ticket; Linear sends a float. */
function toPriority(value: unknown): number {
  const rounded = typeof value === 'number' ? Math.round(value) : 0
  return rounded >= 0 && rounded <= 4 ? rounded : 0
}

/** In a relation of type `blocks`, the source is the blocker. */
function readBlockers(node: unknown): { id: string; closed: boolean }[] {
  return readList(node, 'inverseRelations', 'nodes').flatMap((relation) => {
    const id = readText(relation, 'issue', 'id')
    if (readText(relation, 'type') !== 'blocks' || id === undefined) return []
    return [{ id, closed: isClosed(readField(relation, 'issue')) }]
  })
}

/** Further names that a rule may use for the assignee or the project. */
function readAliases(node: unknown): TrackedTicket['aliases'] {
  const assignee = ['name', 'email'].flatMap((key) => readText(node, 'assignee', key) ?? [])
  if (readField(node, 'assignee', 'isMe') === true) assignee.push('me')
  const project = ['id', 'slugId'].flatMap((key) => readText(node, 'project', key) ?? [])
  if (assignee.length === 0 && project.length === 0) return undefined
  return { assignee, project }
}

function toIssueProblem(node: unknown, error: string): IssueProblem {
  const id = readText(node, 'id') ?? ''
  const shown = printable(readText(node, 'identifier') ?? id).slice(0, NAME_CHARS_MAX) || 'an issue'
  const updatedAt = readInstant(node, 'updatedAt') ?? ''
  return { id, updatedAt, message: `${shown} has an unexpected form: ${error}` }
}

export type LinearFilter = Readonly<Record<string, unknown>>

const UUID = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i

/** Linear refuses the whole query when an id is not a UUID. */
export const isUuid = (text: string): boolean => UUID.test(text)

/**
 * Translates the eligibility rules into a filter of Linear's API.
 *
 * The filter only saves reading: the host decides what is eligible. A rule with several meanings (name, slug or id of a
 * project) matches all of them.
 */
export function buildScope({ states, labels, projects, assignees }: TrackerQuery['rules']): LinearFilter {
  return {
    and: [
      { state: { type: { nin: CLOSED_TYPES } } },
      ...anyOf(states, (named) => ({ state: { or: named.map((name) => ({ name: equalsName(name) })) } })),
      ...anyOf(labels, (named) => ({
        labels: { some: { or: named.map((name) => ({ name: equalsName(name) })) } },
      })),
      ...anyOf(projects, (named) => ({ project: { or: named.flatMap(projectFilters) } })),
      ...anyOf(assignees, (named) => ({ assignee: { or: named.flatMap(personFilters) } })),
    ],
  }
}

/** An empty list adds no condition. */
function anyOf(names: readonly string[], filter: (names: readonly string[]) => LinearFilter): LinearFilter[] {
  return names.length === 0 ? [] : [filter(names.map((name) => name.trim()))]
}

export const equalsName = (name: string): LinearFilter => ({ eqIgnoreCase: name })

export function projectFilters(name: string): LinearFilter[] {
  const byId = isUuid(name) ? [{ id: { eq: name.toLowerCase() } }] : []
  return [{ name: equalsName(name) }, { slugId: equalsName(name) }, ...byId]
}

export function personFilters(name: string): LinearFilter[] {
  const isMe = name.toLowerCase() === 'me' ? [{ isMe: { eq: true } }] : []
  return [{ displayName: equalsName(name) }, { name: equalsName(name) }, { email: equalsName(name) }, ...isMe]
}

// ---- queries -----------------------------------------------------------------------------------------------------

// Linear charges the requested length of a list, whatever it holds, times the cost of its items; page information costs
// too. Frequent queries are therefore short and flat.

/** Limit for tickets with blockers; only reading a ticket tells which issues block it. */
export const BLOCKED_MAX = 50
export const USUAL_SIZES: IssueListSizes = { labels: 16, relations: 10 }
export const LARGEST_SIZES: IssueListSizes = { labels: 100, relations: 100 }

export const ELIGIBLE_QUERY = `
  query Eligible($scope: IssueFilter!, $first: Int!, $after: String) {
    newest: issues(first: 1, orderBy: updatedAt, includeArchived: true) { nodes { updatedAt } }
    issues(first: $first, after: $after, filter: $scope, orderBy: updatedAt) {
      pageInfo { hasNextPage endCursor }
      nodes { ${issueFields(USUAL_SIZES)} }
    }
  }`
export const CHANGES_QUERY = `
  query Changes($entered: IssueFilter!, $touched: IssueFilter!, $blocked: IssueFilter!, $first: Int!) {
    entered: issues(first: $first, filter: $entered, orderBy: updatedAt) { nodes { id updatedAt } }
    touched: issues(first: $first, filter: $touched, orderBy: updatedAt, includeArchived: true) {
      nodes { id updatedAt }
    }
    blocked: issues(first: ${BLOCKED_MAX}, filter: $blocked, orderBy: updatedAt) { nodes { id } }
  }`
export const ISSUES_BY_ID_QUERY = `
  query Issues($filter: IssueFilter!, $first: Int!) {
    issues(first: $first, filter: $filter, includeArchived: true) { nodes { ${issueFields(USUAL_SIZES)} } }
  }`
export const LONG_ISSUE_QUERY = `query LongIssue($id: String!) { issue(id: $id) { ${issueFields(LARGEST_SIZES)} } }`
