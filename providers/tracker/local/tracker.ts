/**
 * Tracker for a folder of Markdown files, one ticket per file.
 *
 * An unreadable file is reported and affects no other. A move changes only the state in the file, and never overwrites
 * a concurrent edit. Pull requests are not linked, because the files belong to the person. `ticket-file.ts` defines the
 * file format.
 */
import { join, resolve } from 'node:path'
import type { Cancel, Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { NewTicket, TrackedTicket, Tracker, TrackerListing } from '../../../core/ports/tracker.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { isSameName } from '../../../core/tickets/names.ts'
import { placeNewTicket } from '../../../core/tickets/new-ticket.ts'
import { TICKET_FILE_BYTES_MAX, TICKET_FILES_MAX, TRACKER_PROJECTS_MAX } from '../../../protocol/limits.ts'
import { codeOf, messageOf } from '../../../protocol/message-of.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { TrackerProject } from '../../../protocol/tracker.ts'
import { refuseMovedTicket } from '../tracker-driver.ts'
import { createWholeFile, removeStaleDrafts, replaceIfUnchanged } from './atomic-rewrite.ts'
import { TicketFolder, type TicketFolderContents } from './folder.ts'
import { watchFolder } from './folder-watch.ts'
import { formatTicketFile, readTicket, replaceState } from './ticket-file.ts'
import { limitProblems, readWholeFile, toFileFacts } from './whole-file.ts'

export interface LocalTrackerOptions {
  /** Folder of the tickets; a relative path starts at the working directory of the process. */
  readonly path: string
  /** The interval of the polls. Every file is checked as often, also while polls follow announced changes. */
  readonly pollMs: number
  readonly clock: Clock
  readonly log: Log
  /** Asked before each change of a file; absent: files are changed. */
  readonly maySend?: () => boolean
}

const NO_CHANGES = no('unavailable', 'the service is stopping, and changes no ticket any more')

export function createLocalTracker(options: LocalTrackerOptions): Tracker {
  return new LocalTracker({ ...options, path: resolve(options.path) })
}

class LocalTracker implements Tracker {
  readonly #path: string
  readonly #clock: Clock
  readonly #log: Log
  readonly #maySend: () => boolean
  readonly #folder: TicketFolder
  /** Problems that were logged and still exist. */
  #reportedProblems: ReadonlySet<string> = new Set()
  #lastMove: Promise<unknown> = Promise.resolve()
  #hasRemovedDrafts = false

  constructor({ path, pollMs, clock, log, maySend = () => true }: LocalTrackerOptions) {
    this.#path = path
    this.#clock = clock
    this.#log = log
    this.#maySend = maySend
    this.#folder = new TicketFolder(path, clock, pollMs)
  }

  /**
   * Lists all tickets whatever the query asks, because reading the folder costs the same.
   *
   * A requested ticket whose file is missing is not reported as closed: editors replace a file by removing it briefly.
   * A ticket missing from the list counts as unchanged, so its run continues until a person cancels it.
   */
  async listTickets(): Promise<Result<TrackerListing>> {
    const contents = await this.#folder.readAll()
    if (!contents.ok) return contents
    this.#reportProblems(contents.value)
    return yes({
      tickets: contents.value.tickets.map(({ tracked }) => tracked),
      problems: limitProblems(contents.value.problems),
    })
  }

  watch(onChange: () => void): Cancel {
    const cancel = watchFolder(this.#path, this.#clock, this.#log, {
      onEvent: (name) => this.#folder.onChange(name),
      onChange,
    })
    this.#folder.setWatched(true)
    return () => {
      this.#folder.setWatched(false)
      cancel()
    }
  }

  /** Serialized, so that two moves of one ticket do not count as foreign edits of each other. */
  moveTicket(ticketId: string, state: string, from?: readonly string[]): Promise<Result<void>> {
    const move = this.#lastMove.then(() => this.#move(ticketId, state, from))
    this.#lastMove = move.catch(() => undefined)
    return move
  }

  async createTicket(ticket: NewTicket): Promise<Result<TrackedTicket>> {
    const contents = await this.#folder.readAll()
    // The folder is wrong, and not the request.
    if (!contents.ok) return no('conflict', contents.refusal.message)
    if (!this.#maySend()) return NO_CHANGES
    return createTicketFile(this.#path, ticket, { taken: contents.value.tickets, clock: this.#clock })
  }

  /** Projects that the tickets name. */
  async projects(): Promise<Result<readonly TrackerProject[]>> {
    const contents = await this.#folder.readAll()
    if (!contents.ok) return contents
    const named = contents.value.tickets.flatMap(({ tracked }) => tracked.ticket.project ?? [])
    const names = [...new Set(named)].sort((a, b) => a.localeCompare(b, 'en'))
    return yes(names.slice(0, TRACKER_PROJECTS_MAX).map((name) => ({ id: name, name, teams: [] })))
  }

  async #move(ticketId: string, state: string, from: readonly string[] | undefined): Promise<Result<void>> {
    const contents = await this.#folder.readAll(true)
    if (!contents.ok) return contents
    const file = contents.value.tickets.find(({ tracked }) => tracked.ticket.id === ticketId)
    if (file === undefined) return refuseUnknownTicket(ticketId, this.#path)
    if (!this.#maySend()) return NO_CHANGES
    try {
      await this.#removeStaleDrafts()
      const moved = await rewriteState(join(this.#path, file.name), file.name, { ticketId, state, from })
      // The watch may have missed a change, so the next attempt checks all files.
      if (!moved.ok) this.#folder.onChange(undefined)
      return moved
    } catch (error) {
      this.#folder.onChange(undefined)
      if (codeOf(error) === 'ENOENT') return refuseChangedFile(file.name)
      const name = printable(file.name)
      return no(
        'failed',
        `${name} could not be changed (${printable(messageOf(error))}); give switchyard write access to ${printable(this.#path)}`,
      )
    }
  }

  async #removeStaleDrafts(): Promise<void> {
    if (this.#hasRemovedDrafts) return
    this.#hasRemovedDrafts = true
    await removeStaleDrafts(this.#path, this.#clock.now())
  }

  #reportProblems({ tickets, problems, readCount }: TicketFolderContents): void {
    if (readCount > 0)
      this.#log.debug(
        { path: this.#path, tickets: tickets.length, read: readCount },
        'ticket files were read',
      )
    const unreported = problems.filter((problem) => !this.#reportedProblems.has(problem))
    for (const problem of limitProblems(unreported)) this.#log.warn({ path: this.#path }, problem)
    this.#reportedProblems = new Set(problems)
  }
}

// ---- changes of a state --------------------------------------------------------------------------------------------

interface TicketFileMove {
  readonly ticketId: string
  readonly state: string
  readonly from: readonly string[] | undefined
}

/** Reads the file again, so that recent edits are kept. */
async function rewriteState(
  path: string,
  name: string,
  { ticketId, state, from }: TicketFileMove,
): Promise<Result<void>> {
  const file = await readWholeFile(path)
  if (file === undefined) return refuseChangedFile(name)
  const facts = toFileFacts(name, path, file.stats)
  const read = readTicket(file.bytes, facts)
  if (!read.ok || read.tracked.ticket.id !== ticketId) return refuseChangedFile(name)
  const { identifier, state: current } = read.tracked.ticket
  if (current === state) return yes(undefined)
  const isMovable = from?.some((expected) => isSameName(expected, current)) ?? !read.tracked.closed
  if (!isMovable) return refuseMovedTicket(identifier, current)
  const bytes = replaceState(file.bytes, state)
  const after =
    bytes === undefined || bytes.length > TICKET_FILE_BYTES_MAX ? undefined : readTicket(bytes, facts)
  if (bytes === undefined || after?.ok !== true || after.tracked.ticket.state !== state) {
    return no(
      'invalid',
      `${printable(name)} cannot take the state ${printable(state)}; use a shorter, plainer one`,
    )
  }
  return (await replaceIfUnchanged(path, file, bytes)) ? yes(undefined) : refuseChangedFile(name)
}

function refuseChangedFile(name: string) {
  return no('conflict', `${printable(name)} was changed meanwhile and is left unchanged; try again`)
}

function refuseUnknownTicket(ticketId: string, path: string) {
  return no('unknown', `no ticket in ${printable(path)} has the id ${printable(ticketId)}`)
}

// ---- new tickets ---------------------------------------------------------------------------------------------------

const IDLE_STATE = 'Backlog'
/** The state where the rules name none. */
const USUAL_STATE = 'Todo'
const NAME_CHARS_MAX = 48
/** Names that are no tickets, or that some systems reserve. */
const RESERVED_NAMES = /^(readme|con|prn|aux|nul|com[0-9]|lpt[0-9])$/

interface CreateTicketContext {
  readonly taken: readonly { readonly name: string; readonly tracked: TrackedTicket }[]
  readonly clock: Pick<Clock, 'now'>
}

/**
 * Creates the file of a new ticket.
 *
 * The file appears whole and never replaces another one. Its name, which becomes the ticket's identifier, is made of the
 * title, with a number behind it where the name is taken.
 */
async function createTicketFile(
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
      `the ticket could not be written (${printable(messageOf(error))}); give switchyard write access to ${printable(folder)}`,
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
