/**
 * An issue of Linear as a ticket.
 *
 * Cut to what a ticket may hold, so that a long description costs nobody the ticket. A kind of state that is not known
 * here counts as open: it is better to wait for a blocker in vain than not to wait for it.
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

/** By Linear's types of states, whatever a team calls them. */
export const CLOSED_TYPES: readonly string[] = ['completed', 'canceled', 'duplicate']

export interface LinearIssue {
  readonly tracked: TrackedTicket
  /** Of those it waits for, the ones that are not closed. */
  readonly openBlockers: readonly string[]
  /** It may have more labels or relations than were asked for. */
  readonly isTruncated: boolean
}

/** What is the matter with one issue, as it was then. */
export interface IssueProblem {
  readonly id: string
  readonly updatedAt: string
  readonly message: string
}

export type IssueReadResult =
  | { readonly ok: true; readonly issue: LinearIssue }
  | { readonly ok: false; readonly note: IssueProblem }

/** How much of its lists is asked for. They are what makes reading it dear. */
export interface IssueListSizes {
  readonly labels: number
  readonly relations: number
}

/** Whether a list has more, is seen by its being full: asking for that would cost as much as half of it. */
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
  if (!checked.ok) return { ok: false, note: toIssueProblem(node, checked.error) }
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

/** Put away, or in a state of an end. */
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
    state: cutName(readText(node, 'state', 'name') ?? ''),
    priority: toPriority(readField(node, 'priority')),
    labels: readList(node, 'labels', 'nodes')
      .flatMap((label) => readText(label, 'name') ?? [])
      .map(cutName)
      .slice(0, LABELS_MAX)
      // They come in any order, and the same labels should be the same ticket.
      .sort(),
    ...(assignee === undefined ? {} : { assignee: cutName(assignee) }),
    ...(project === undefined ? {} : { project: cutName(project) }),
    ...(branchName === undefined || branchName.length > NAME_CHARS_MAX ? {} : { branchName }),
    blockedBy: blockers.map(({ id }) => id).slice(0, LABELS_MAX),
    createdAt: readInstant(node, 'createdAt'),
    updatedAt: readInstant(node, 'updatedAt'),
  }
}

const cutName = (text: string): string => truncateToChars(text, NAME_CHARS_MAX)

/** 0 none, 1 urgent … 4 low, as here; it is a Float there. */
function toPriority(value: unknown): number {
  const rounded = typeof value === 'number' ? Math.round(value) : 0
  return rounded >= 0 && rounded <= 4 ? rounded : 0
}

/** Where a relation says that one issue blocks another, the blocker is its source. */
function readBlockers(node: unknown): { id: string; closed: boolean }[] {
  return readList(node, 'inverseRelations', 'nodes').flatMap((relation) => {
    const id = readText(relation, 'issue', 'id')
    if (readText(relation, 'type') !== 'blocks' || id === undefined) return []
    return [{ id, closed: isClosed(readField(relation, 'issue')) }]
  })
}

/** By these, too, a rule may name the person or the project that the ticket shows by one name. */
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
  return { id, updatedAt, message: `${shown} is not as Linear's issues are: ${error}` }
}
