/**
 * Creates the file of a new ticket.
 *
 * The file appears whole and never replaces another one. Its name, which becomes the ticket's identifier, is made of the
 * title, with a number behind it where the name is taken.
 */
import { join } from 'node:path'
import type { Clock, NewTicket, TrackedTicket } from '../../../core/ports.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { isSameName } from '../../../core/tickets/names.ts'
import { placeNewTicket } from '../../../core/tickets/new-ticket.ts'
import { TICKET_FILE_BYTES_MAX, TICKET_FILES_MAX } from '../../../protocol/limits.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { createWholeFile } from './atomic-rewrite.ts'
import { errorText } from './errors.ts'
import { formatTicketFile, readTicket } from './ticket-file.ts'
import { readWholeFile, toFileFacts } from './whole-file.ts'

const IDLE_STATE = 'Backlog'
/** The state where the rules name none. */
const USUAL_STATE = 'Todo'
const NAME_CHARS_MAX = 48
/** Names that are no tickets, or that some systems reserve. */
const RESERVED_NAMES = /^(readme|con|prn|aux|nul|com[0-9]|lpt[0-9])$/

export interface CreateTicketContext {
  readonly taken: readonly { readonly name: string; readonly tracked: TrackedTicket }[]
  readonly clock: Pick<Clock, 'now'>
}

export async function createTicketFile(
  folder: string,
  ticket: NewTicket,
  { taken, clock }: CreateTicketContext,
): Promise<Result<TrackedTicket>> {
  const text = formatTicket(ticket, clock)
  if (!text.ok) return text
  if (taken.length >= TICKET_FILES_MAX)
    return no('conflict', `${printable(folder)} holds ${TICKET_FILES_MAX} tickets already; remove old ones`)
  try {
    for (const identifier of candidateNames(ticket.title)) {
      if (taken.some(({ name, tracked }) => isTaken(identifier, name, tracked))) continue
      const path = join(folder, `${identifier}.md`)
      if (await createWholeFile(path, text.value)) return await readCreated(path, `${identifier}.md`)
    }
  } catch (error) {
    return no(
      'failed',
      `the ticket could not be written (${printable(errorText(error))}); give switchyard write access to ${printable(folder)}`,
    )
  }
  return no('conflict', 'too many tickets have this title; choose another one')
}

function formatTicket(ticket: NewTicket, clock: Pick<Clock, 'now'>): Result<Buffer> {
  const place = placeNewTicket(ticket, IDLE_STATE)
  if (!place.ok) return place
  const { state = USUAL_STATE, labels, project, assignee } = place.value
  const fields = {
    title: ticket.title,
    state,
    priority: ticket.priority === 0 ? undefined : ticket.priority,
    labels,
    repo: ticket.repo?.key,
    project,
    assignee,
    createdAt: new Date(clock.now()).toISOString(),
  }
  const text = formatTicketFile(fields, ticket.description)
  return text.length <= TICKET_FILE_BYTES_MAX
    ? yes(text)
    : no('invalid', `/description: a ticket's file must have at most ${TICKET_FILE_BYTES_MAX} bytes`)
}

/** The title in plain letters, then the same with 2, 3 and so on. */
function* candidateNames(title: string): Generator<string> {
  const plain = title.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()
  const words = plain.replace(/[^a-z0-9]+/g, '-').replace(/^-+/, '')
  const short = words.slice(0, NAME_CHARS_MAX).replace(/-+$/, '')
  const base = short === '' ? 'ticket' : short
  if (!RESERVED_NAMES.test(base)) yield base
  for (let count = 2; count <= TICKET_FILES_MAX; count++) yield `${base}-${count}`
}

function isTaken(identifier: string, name: string, { ticket }: TrackedTicket): boolean {
  return [name.replace(/\.md$/i, ''), ticket.id, ticket.identifier].some((known) =>
    isSameName(known, identifier),
  )
}

async function readCreated(path: string, name: string): Promise<Result<TrackedTicket>> {
  const file = await readWholeFile(path)
  const read = file === undefined ? undefined : readTicket(file.bytes, toFileFacts(name, path, file.stats))
  if (read?.ok === true) return yes(read.tracked)
  return no('failed', `${name} was created and cannot be read as a ticket: ${read?.problem ?? 'it is gone'}`)
}
