/**
 * FolderTickets are the tickets of a folder's files, sorted by file name. Of several files with one id the first counts,
 * and the others are problems.
 */
import type { TrackedTicket } from '../../../core/ports.ts'
import { repeatedIdProblem } from './folder-problems.ts'
import type { TicketReadResult } from './ticket-file.ts'

export interface FolderTickets {
  readonly tickets: readonly FileTicket[]
  readonly problems: readonly string[]
}

export interface FileTicket {
  readonly name: string
  readonly tracked: TrackedTicket
}

interface ReadFile {
  readonly result: TicketReadResult
}

/** @param files by name, in the order of the names */
export function collectTickets(files: ReadonlyMap<string, ReadFile>): FolderTickets {
  const tickets: FileTicket[] = []
  const problems: string[] = []
  const nameOf = new Map<string, string>()
  for (const [name, { result }] of files) {
    if (!result.ok) {
      problems.push(result.problem)
      continue
    }
    const { id } = result.tracked.ticket
    const first = nameOf.get(id)
    if (first === undefined) {
      nameOf.set(id, name)
      tickets.push({ name, tracked: result.tracked })
    } else problems.push(repeatedIdProblem(name, id, first))
  }
  return { tickets, problems }
}

/** Replaces the tickets of changed files. Returns undefined when a file gained or lost a ticket or a problem. */
export function replaceTickets(
  contents: FolderTickets,
  before: ReadonlyMap<string, ReadFile>,
  changed: ReadonlyMap<string, ReadFile>,
): FolderTickets | undefined {
  const tickets = [...contents.tickets]
  for (const [name, { result }] of changed) {
    const known = before.get(name)?.result
    if (known === undefined || !hasSameSubject(known, result)) return undefined
    const at = indexOfName(name, tickets)
    // The ticket of a file whose id an earlier file has is not among them.
    if (result.ok && tickets[at]?.name === name) tickets[at] = { name, tracked: result.tracked }
  }
  return { ...contents, tickets }
}

const hasSameSubject = (a: TicketReadResult, b: TicketReadResult): boolean =>
  a.ok && b.ok ? a.tracked.ticket.id === b.tracked.ticket.id : !a.ok && !b.ok && a.problem === b.problem

/** Returns the index of the first ticket whose file name is not before this one. */
function indexOfName(name: string, tickets: readonly FileTicket[]): number {
  let from = 0
  let until = tickets.length
  while (from < until) {
    const middle = (from + until) >> 1
    if ((tickets[middle]?.name ?? '') < name) from = middle + 1
    else until = middle
  }
  return from
}
