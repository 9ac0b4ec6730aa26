/**
 * Converts a Linear issue into a ticket.
 *
 * Texts are cut to the limits of a ticket, so a long description does not cost the ticket. An unknown type of state
 * counts as open: waiting for a blocker in vain is better than ignoring it.
 */
import type { TrackedTicket } from '../../../core/ports.ts'
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
import { readField, readInstant, readList, readText } from './fields.ts'

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
    title: truncateToChars(readText(node, 'title') ?? '', TEXT_CHARS_MAX),
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
