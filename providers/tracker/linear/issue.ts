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
import { checker } from '../../../protocol/parse.ts'
import { Ticket } from '../../../protocol/run.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { cutToChars } from '../../../protocol/text-budget.ts'
import { at, instantAt, listAt, textAt } from './fields.ts'

/** By Linear's types of states, whatever a team calls them. */
export const CLOSED_TYPES: readonly string[] = ['completed', 'canceled', 'duplicate']

export interface Issue {
  readonly tracked: TrackedTicket
  /** Of those it waits for, the ones that are not closed. */
  readonly openBlockers: readonly string[]
  /** It may have more labels or relations than were asked for. */
  readonly isCut: boolean
}

/** What is the matter with one issue, as it was then. */
export interface IssueNote {
  readonly id: string
  readonly updatedAt: string
  readonly says: string
}

export type IssueRead =
  | { readonly ok: true; readonly issue: Issue }
  | { readonly ok: false; readonly note: IssueNote }

/** How much of its lists is asked for. They are what makes reading it dear. */
export interface IssueSizes {
  readonly labels: number
  readonly relations: number
}

/** Whether a list has more, is seen by its being full: asking for that would cost as much as half of it. */
export function issueFields({ labels, relations }: IssueSizes): string {
  return `
    id identifier title description priority url branchName createdAt updatedAt archivedAt
    state { name type }
    project { id name slugId }
    assignee { name displayName email isMe }
    labels(first: ${labels}) { nodes { name } }
    inverseRelations(first: ${relations}) { nodes { type issue { id archivedAt state { type } } } }`
}

const checkTicket = checker(Ticket)
const LINK = /^https?:\/\/[^\s]+$/

export function readIssue(node: unknown, asked: IssueSizes): IssueRead {
  const blockers = blockersOf(node)
  const checked = checkTicket(ticketOf(node, blockers))
  if (!checked.ok) return { ok: false, note: noteOf(node, checked.error) }
  const otherNames = otherNamesOf(node)
  return {
    ok: true,
    issue: {
      tracked: { ticket: checked.value, closed: isClosed(node), ...(otherNames && { aliases: otherNames }) },
      openBlockers: blockers.filter(({ closed }) => !closed).map(({ id }) => id),
      isCut:
        listAt(node, 'labels', 'nodes').length >= asked.labels ||
        listAt(node, 'inverseRelations', 'nodes').length >= asked.relations,
    },
  }
}

/** Put away, or in a state of an end. */
export function isClosed(node: unknown): boolean {
  if (typeof at(node, 'archivedAt') === 'string') return true
  return CLOSED_TYPES.includes(textAt(node, 'state', 'type') ?? '')
}

function ticketOf(node: unknown, blockers: readonly { id: string }[]) {
  const [assignee, project] = [textAt(node, 'assignee', 'displayName'), textAt(node, 'project', 'name')]
  const branchName = textAt(node, 'branchName')
  const url = textAt(node, 'url') ?? ''
  return {
    id: at(node, 'id'),
    identifier: at(node, 'identifier'),
    title: cutToChars(textAt(node, 'title') ?? '', TEXT_CHARS_MAX),
    description: cutToChars(textAt(node, 'description') ?? '', PROSE_CHARS_MAX),
    url: url.length <= URL_CHARS_MAX && LINK.test(url) ? url : '',
    state: name(textAt(node, 'state', 'name') ?? ''),
    priority: priorityOf(at(node, 'priority')),
    labels: listAt(node, 'labels', 'nodes')
      .flatMap((label) => textAt(label, 'name') ?? [])
      .map(name)
      .slice(0, LABELS_MAX)
      // They come in any order, and the same labels should be the same ticket.
      .sort(),
    ...(assignee === undefined ? {} : { assignee: name(assignee) }),
    ...(project === undefined ? {} : { project: name(project) }),
    ...(branchName === undefined || branchName.length > NAME_CHARS_MAX ? {} : { branchName }),
    blockedBy: blockers.map(({ id }) => id).slice(0, LABELS_MAX),
    createdAt: instantAt(node, 'createdAt'),
    updatedAt: instantAt(node, 'updatedAt'),
  }
}

const name = (text: string): string => cutToChars(text, NAME_CHARS_MAX)

/** 0 none, 1 urgent … 4 low, as here; it is a Float there. */
function priorityOf(value: unknown): number {
  const rounded = typeof value === 'number' ? Math.round(value) : 0
  return rounded >= 0 && rounded <= 4 ? rounded : 0
}

/** Where a relation says that one issue blocks another, the blocker is its source. */
function blockersOf(node: unknown): { id: string; closed: boolean }[] {
  return listAt(node, 'inverseRelations', 'nodes').flatMap((relation) => {
    const id = textAt(relation, 'issue', 'id')
    if (textAt(relation, 'type') !== 'blocks' || id === undefined) return []
    return [{ id, closed: isClosed(at(relation, 'issue')) }]
  })
}

/** By these, too, a rule may name the person or the project that the ticket shows by one name. */
function otherNamesOf(node: unknown): TrackedTicket['aliases'] {
  const assignee = ['name', 'email'].flatMap((key) => textAt(node, 'assignee', key) ?? [])
  if (at(node, 'assignee', 'isMe') === true) assignee.push('me')
  const project = ['id', 'slugId'].flatMap((key) => textAt(node, 'project', key) ?? [])
  if (assignee.length === 0 && project.length === 0) return undefined
  return { assignee, project }
}

function noteOf(node: unknown, error: string): IssueNote {
  const id = textAt(node, 'id') ?? ''
  const shown = printable(textAt(node, 'identifier') ?? id).slice(0, NAME_CHARS_MAX) || 'an issue'
  const updatedAt = instantAt(node, 'updatedAt') ?? ''
  return { id, updatedAt, says: `${shown} is not as Linear's issues are: ${error}` }
}
