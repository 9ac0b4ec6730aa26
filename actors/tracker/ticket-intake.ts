/**
 * TicketIntake lists the tickets of the tracker and derives which wait for others and which become runs.
 *
 * A poll evaluates the tickets that have changed and those that are owed an evaluation, so one edited ticket costs one
 * ticket. The stored observation of each ticket keeps a restart, or the host's own move of a ticket, from
 * starting a run again. `ticket-moves.ts` moves tickets and `tracker-poll.machine.ts` decides when the tracker is polled.
 */
import type { Cancel } from '../../core/ports/clock.ts'
import type { TrackedTicket, Tracker, TrackerListing } from '../../core/ports/tracker.ts'
import type { Result } from '../../core/result.ts'
import {
  openBlockers,
  type TicketsById,
  unlistedReason,
  waitingCycle,
  waitingReason,
} from '../../core/tickets/blockers.ts'
import { HostChanges } from '../../core/tickets/host-changes.ts'
import { isSameName } from '../../core/tickets/names.ts'
import { withRepo } from '../../core/tickets/repo.ts'
import {
  allowedOrigins,
  observedAfter,
  observedBefore,
  observeEligibility,
  observeTicket,
  recordHostMove,
  recordHostState,
  rememberedMove,
  shouldStartRun,
  type TicketObservation,
} from '../../core/tickets/run-progress.ts'
import { TicketListing } from '../../core/tickets/ticket-listing.ts'
import { TICKET_ID_BYTES_MAX } from '../../protocol/limits.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import { compareTickets } from '../../protocol/ticket-order.ts'
import type { HostContext } from '../host-context.ts'
import type { RunManager } from '../runs/run-manager.ts'
import type { StoredCollection } from '../runtime/stored-collection.ts'
import { TICKETS_PER_TURN, TicketBacklog } from './ticket-backlog.ts'
import { type TicketMove, TicketMoves } from './ticket-moves.ts'
import type { TrackerConnection } from './tracker-connection.ts'
import { TRACKER_POLL, type TrackerPollEffect, type TrackerPollEvent } from './tracker-poll.machine.ts'

export type Observations = StoredCollection<TicketObservation>

export interface TicketIntakeParts {
  readonly connection: TrackerConnection
  readonly observations: Observations
  readonly onTicketsChanged: (change: TicketsChange) => void
}

export interface TicketsChange {
  /** Ids and identifiers of the tickets that appeared, changed or left, and of those that wait for one of them. */
  readonly names: ReadonlySet<string>
  /** The list of eligible tickets has changed. */
  readonly isEligibleChanged: boolean
}

/** When the tracker was and will be polled, and how many tickets it listed. */
export interface PollRecord {
  /** The wall time of the last answer with tickets, in milliseconds. */
  readonly lastPollAt: number | undefined
  readonly nextPollInMs: number | undefined
  readonly seen: number
  readonly eligible: number
}

interface TicketMoveOptions {
  /** The only states from which the ticket may be moved. */
  readonly only?: readonly string[]
  /** The ticket's work is done, so its run may have ended long ago. */
  readonly isDone?: boolean
}

export class TicketIntake {
  readonly moves: TicketMoves
  readonly #context: HostContext
  readonly #runs: RunManager
  readonly #parts: TicketIntakeParts
  readonly #observations: Observations
  readonly #changes = new HostChanges()
  #cancelWatch: Cancel = () => {}
  /** The wait for the next poll, whose end is in monotonic milliseconds. */
  #wait: { readonly cancel: Cancel; readonly until: number } | undefined
  /** The wall time, for people. */
  #lastPollAt: number | undefined
  /** A poll that is no longer the newest, or of an earlier tracker, has no effect. */
  #newestPoll = 0
  readonly #listing = new TicketListing(isStorable)
  /** Whether the current tracker has been listed. */
  #hasListing = false
  /** Ids of the tickets that the next evaluation judges even if the tracker lists them as before. */
  readonly #owed = new Set<string>()
  /** The owed tickets that this evaluation has not judged yet. */
  readonly #backlog: TicketBacklog

  constructor(context: HostContext, runs: RunManager, parts: TicketIntakeParts) {
    this.#context = context
    this.#runs = runs
    this.#parts = parts
    this.#observations = parts.observations
    this.#backlog = new TicketBacklog(context.clock, (ids) => this.#judge(ids))
    this.moves = new TicketMoves(context, parts.connection, {
      remake: (ticketId) => this.#remakeMove(ticketId),
      allowedOrigins: (move) => allowedOrigins(move, context.config().tracker),
      onAnswered: (move, how) => {
        this.#changes.addAnswered(move.ticketId)
        this.#onMoveAnswered(move, how)
        this.#notifyPoll({ type: 'tracker changed' })
      },
    })
  }

  // ---- queries -----------------------------------------------------------------------------------------------------

  /** Eligible tickets, as people see them, in the order in which runs are queued. */
  shownTickets(): Ticket[] {
    const { repos } = this.#context.config()
    return this.#listing.eligible.map((ticket) => withRepo(ticket, repos))
  }

  /** Every ticket of the last listing. */
  listed(): TicketsById {
    return this.#listing.byId
  }

  /** Whether the ticket becomes a run while it is eligible: no run is active or has ended since it entered its state. */
  isDue(ticket: Ticket): boolean {
    const runs = this.#runs
    // Nearly every eligible ticket has one, and this is asked for all of them.
    if (runs.activeRunOf(ticket.id) !== undefined) return false
    const memory = this.#observations.get(ticket.id)
    if (memory === undefined) return false
    const lastFinishedAt = runs.lastFinishedAt(ticket)
    return shouldStartRun({ eligible: true, memory, hasActiveRun: false, lastFinishedAt })
  }

  find(asked: string): Ticket | undefined {
    return this.#listing.find(asked)
  }

  /** The ticket as last listed by the tracker, which may be newer than the copy in a run. */
  currentTicket(ticket: Ticket): Ticket {
    return this.#listing.byId.get(ticket.id)?.ticket ?? ticket
  }

  /** The blockers of this ticket, as a sentence. Before the first listing any of them may be open. */
  waitingFor(ticket: Ticket): string | undefined {
    const current = this.currentTicket(ticket)
    if (!this.#hasListing && current.blockedBy.length > 0) return unlistedReason(current.blockedBy)
    const { byId } = this.#listing
    const blockers = openBlockers(current, byId)
    return blockers.length === 0 ? undefined : waitingReason(blockers, waitingCycle(current, byId))
  }

  pollRecord(): PollRecord {
    return {
      lastPollAt: this.#lastPollAt,
      nextPollInMs: this.#wait && Math.max(0, this.#wait.until - this.#context.clock.monotonic()),
      seen: this.#listing.byId.size,
      eligible: this.#listing.eligible.length,
    }
  }

  // ---- the tracker -------------------------------------------------------------------------------------------------

  /** Applies new eligibility rules. A tracker that was replaced is listed first, and its tickets are judged then. */
  onConfigChange(): void {
    const isEligibleChanged = this.#listing.applyRules(this.#context.config().tracker.eligible)
    const ids = this.#listing.byId.keys()
    if (this.#hasListing) this.#evaluate(ids)
    else this.#postpone(ids)
    if (isEligibleChanged) this.#parts.onTicketsChanged({ names: new Set(), isEligibleChanged })
  }

  /** Watches the new tracker, if there is one, instead of the old one, and forgets the tickets of another one. */
  onTrackerReplaced(tracker: Tracker | undefined, isAnother: boolean): void {
    this.#cancelWatch()
    this.#cancelWatch = tracker?.watch(() => this.#notifyPoll({ type: 'tracker changed' })) ?? (() => {})
    this.#newestPoll += 1
    this.#hasListing = false
    this.#changes.forgetCreated()
    this.#lastPollAt = undefined
    if (tracker === undefined) this.#applyListing({ tickets: [], problems: [] })
    else if (isAnother) this.#replaceListing([])
  }

  stop(): void {
    this.#cancelWatch()
    this.#wait?.cancel()
    this.#backlog.stop()
    this.moves.stop()
  }

  runEffect(effect: TrackerPollEffect): void {
    this.#wait?.cancel()
    this.#wait = undefined
    if (effect.type === 'intake.poll') {
      void this.#poll()
      return
    }
    const { clock } = this.#context
    const cancel = clock.after(effect.ms, () => this.#notifyPoll({ type: 'interval passed' }))
    this.#wait = { cancel, until: clock.monotonic() + effect.ms }
  }

  #notifyPoll(event: TrackerPollEvent): void {
    this.#context.system.send(TRACKER_POLL, TRACKER_POLL, event)
  }

  async #poll(): Promise<void> {
    const { connection } = this.#parts
    const poll = ++this.#newestPoll
    const isOver = (): boolean => poll !== this.#newestPoll
    // The tickets of the last listing are judged first.
    if (!this.#backlog.isEmpty) await this.#backlog.whenEmpty()
    if (isOver()) return
    this.#changes.beginPoll()
    const { eligible: rules } = this.#context.config().tracker
    const query = { rules, tickets: [...this.#runs.activeTickets()] }
    const listing = await connection.ask((tracker) => tracker.listTickets(query))
    if (isOver()) return
    if (listing.ok) {
      this.#lastPollAt = this.#context.clock.now()
      this.#applyListing(listing.value)
    }
    // The tracker connection already knows about a refused credential.
    if (listing.ok || listing.refusal.kind !== 'unauthorized') connection.reportAnswer(problemOf(listing))
    if (!this.#backlog.isEmpty) await this.#backlog.whenEmpty()
    if (isOver()) return
    this.#notifyPoll({ type: 'poll finished' })
  }

  /**
   * Takes up a ticket that the host has just created, as if a poll had listed it. Returns its run, which a poll may have
   * queued meanwhile. When the queue has become full, a poll queues the run later.
   */
  adoptTicket(tracked: TrackedTicket, isStarted: boolean): string | undefined {
    const runs = this.#runs
    const { ticket } = tracked
    if (!this.#listing.byId.has(ticket.id)) {
      this.#changes.addCreated(tracked)
      this.#replaceListing([...this.#listing.tickets, tracked])
    }
    const run = runs.activeRunOf(ticket.id)
    if (run !== undefined || !isStarted || runs.lastFinishedAt(ticket) !== undefined) return run
    const created = runs.createRun(ticket)
    return created.ok ? created.value : undefined
  }

  // ---- evaluation --------------------------------------------------------------------------------------------------

  #applyListing({ tickets }: TrackerListing): void {
    const isFirst = !this.#hasListing
    this.#hasListing = true
    this.#replaceListing(this.#changes.completeListing(tickets))
    // Runs whose tickets and blockers are not listed waited for the listing, too.
    const waiting = new Set(isFirst ? this.#runs.activeTickets() : [])
    if (waiting.size > 0) this.#parts.onTicketsChanged({ names: waiting, isEligibleChanged: false })
  }

  #replaceListing(tickets: readonly TrackedTicket[]): void {
    const rules = this.#context.config().tracker.eligible
    const { changed, affectedNames, isEligibleChanged, leftOut } = this.#listing.replace(tickets, rules)
    if (leftOut > 0) this.#context.log.warn({ tickets: leftOut }, 'tickets with overlong ids are left out')
    this.#evaluate(changed)
    if (changed.size > 0) this.#parts.onTicketsChanged({ names: affectedNames, isEligibleChanged })
  }

  /** The ticket's run has ended, so that the next poll may start another one. */
  onRunOver(ticketId: string): void {
    this.#owe(ticketId)
  }

  /** A ticket that is not listed is evaluated as soon as it is. */
  #owe(ticketId: string): void {
    if (this.#listing.byId.has(ticketId)) this.#owed.add(ticketId)
  }

  /**
   * Evaluates these tickets, and those that are owed an evaluation: a few at once, many in the turns that follow, because
   * listing many has kept this turn busy already. Tickets with an active run never wait, because a run whose ticket has
   * left must not start meanwhile.
   */
  #evaluate(ticketIds: Iterable<string>): void {
    const asked = [...ticketIds]
    // A ticket stays owed until it is judged, also when reading the store throws.
    for (const id of asked) this.#owed.add(id)
    if (this.#owed.size <= TICKETS_PER_TURN) {
      this.#backlog.replace([])
      this.#judge([...this.#owed])
      return
    }
    const isNow = new Set([...this.#owed].filter((id) => this.#runs.activeRunOf(id) !== undefined))
    if (asked.length <= TICKETS_PER_TURN) for (const id of asked) isNow.add(id)
    this.#backlog.replace(this.#inQueueOrder([...this.#owed].filter((id) => !isNow.has(id))))
    this.#judge([...isNow])
  }

  /** Leaves these tickets, and those whose turn has not come, to the evaluation of the next listing. */
  #postpone(ticketIds: Iterable<string>): void {
    for (const id of ticketIds) this.#owed.add(id)
    this.#backlog.replace([])
  }

  #inQueueOrder(ticketIds: readonly string[]): string[] {
    const { byId } = this.#listing
    const tickets = ticketIds.flatMap((id) => byId.get(id)?.ticket ?? [])
    const missing = ticketIds.filter((id) => !byId.has(id))
    return [...missing, ...tickets.sort(compareTickets).map(({ id }) => id)]
  }

  #judge(ticketIds: readonly string[]): void {
    const { byId } = this.#listing
    const nowIso = new Date(this.#context.clock.now()).toISOString()
    const eligible: Ticket[] = []
    for (const id of ticketIds) {
      const ticket = byId.get(id)?.ticket
      const isEligible = this.#listing.isEligible(id)
      if (ticket !== undefined) this.#updateEligibility(ticket, isEligible, this.#remember(ticket, nowIso))
      if (ticket !== undefined && isEligible) eligible.push(ticket)
      // A missing ticket counts as unchanged, and is judged when it is listed again.
      else this.#settle(id)
    }
    for (const ticket of eligible.sort(compareTickets)) {
      // The queue may be full: a later poll tries again.
      if (!this.isDue(ticket) || this.#runs.createRun(ticket).ok) this.#settle(ticket.id)
    }
  }

  /**
   * A run was created, perhaps by a person while its ticket waited to be judged. The run starts from what is seen of the
   * ticket now; that the ticket has left concerned only earlier runs.
   */
  onRunCreated(ticketId: string): void {
    const ticket = this.#listing.byId.get(ticketId)?.ticket
    if (ticket === undefined || !this.#owed.has(ticketId)) return
    const known = this.#remember(ticket, new Date(this.#context.clock.now()).toISOString())
    if (known === undefined) return
    const memory = observeEligibility(known, this.#listing.isEligible(ticketId))
    if (memory !== known) this.#observations.set(ticketId, memory)
  }

  /** The ticket was judged. Its listed state may be outdated after a move, so it is judged again then. */
  #settle(ticketId: string): void {
    if (!this.#isMoveRecent(ticketId)) this.#owed.delete(ticketId)
  }

  /** Returns what is remembered of the ticket now. */
  #remember(ticket: Ticket, nowIso: string): TicketObservation | undefined {
    const known = this.#observations.get(ticket.id)
    if (this.moves.isMoving(ticket.id)) return known
    if (this.#changes.isOutdated(ticket, this.#context.clock.monotonic())) return known
    const observed = observeTicket(known, ticket, nowIso)
    if (observed === known) return known
    const lastFinishedAt = this.#runs.lastFinishedAt(ticket)
    // The earlier observation may be lost, and the clock behind the tracker's.
    const memory =
      known === undefined
        ? observedBefore(observed, lastFinishedAt ?? observed.since)
        : observedAfter(observed, lastFinishedAt)
    this.#observations.set(ticket.id, memory)
    return memory
  }

  /** Records whether the ticket is eligible. A ticket that the host itself moved does not count as withdrawn. */
  #updateEligibility(ticket: Ticket, isEligible: boolean, known: TicketObservation | undefined): void {
    if (known === undefined || (!isEligible && this.#wasMovedByHost(ticket))) return
    const memory = observeEligibility(known, isEligible)
    if (memory === known) return
    this.#observations.set(ticket.id, memory)
    if (!isEligible) this.#runs.onTicketLeft(ticket)
  }

  #wasMovedByHost(ticket: Ticket): boolean {
    if (this.#isMoveRecent(ticket.id)) return true
    const put = this.#observations.get(ticket.id)?.put
    return put !== undefined && isSameName(put, ticket.state)
  }

  /** Whether the host moves the ticket, or has just moved it: its listed state may be outdated. */
  #isMoveRecent(ticketId: string): boolean {
    return this.moves.isMoving(ticketId) || this.#changes.isRecent(ticketId)
  }

  /** Moves the ticket on behalf of the host, and remembers the new state so that it does not count as a change. */
  moveTicket(ticketId: string, state: string, { only, isDone = false }: TicketMoveOptions = {}): void {
    const known = this.#observations.get(ticketId)
    if (known === undefined) return
    // A ticket that is missing from the listing was withdrawn by a person, so do not move it. Before the first listing,
    // the tracker itself refuses unknown tickets. A ticket without a run may be missing because it is not eligible.
    if (!isDone && this.#hasListing && !this.#listing.byId.has(ticketId)) return
    this.#rememberState(ticketId, state)
    this.moves.request(ticketId, state, known.state, only)
  }

  /** Otherwise the ticket, which may not have been moved, would count as moved by somebody else, and run again. */
  #remakeMove(ticketId: string): TicketMove | undefined {
    const known = this.#observations.get(ticketId)
    return known && { ticketId, ...rememberedMove(known, this.#context.config().tracker) }
  }

  /** Dates what was seen of the ticket before the run's end, even when the wall clock was set back in between. */
  onRunEnded({ ticket, finishedAt }: Run): void {
    const known = this.#observations.get(ticket.id)
    if (known === undefined || finishedAt === undefined) return
    const memory = observedBefore(known, finishedAt)
    if (memory !== known) this.#observations.set(ticket.id, memory)
  }

  /** Remembers the move's outcome. Otherwise a ticket seen in its old state would count as changed and run again. */
  #onMoveAnswered({ ticketId, state, from }: TicketMove, how: 'moved' | 'refused'): void {
    this.#owe(ticketId)
    const known = this.#observations.get(ticketId)
    if (how === 'moved' && known !== undefined)
      this.#observations.set(ticketId, recordHostState(known, state))
    if (from === undefined) return
    if (how === 'refused') this.#rememberState(ticketId, from)
    else this.#changes.addMove(ticketId, [from, known?.put ?? from], state, this.#context.clock.monotonic())
  }

  #rememberState(ticketId: string, state: string): void {
    const known = this.#observations.get(ticketId)
    if (known === undefined) return
    const memory = recordHostMove(known, state)
    if (memory !== known) this.#observations.set(ticketId, memory)
  }
}

/**
 * Longer ids do not fit into a key of the store. A single such ticket must not block the others. A text has at most
 * three bytes for each unit of its length.
 */
const isStorable = ({ ticket: { id } }: TrackedTicket): boolean =>
  id.length * 3 <= TICKET_ID_BYTES_MAX || Buffer.byteLength(id) <= TICKET_ID_BYTES_MAX

function problemOf(listing: Result<TrackerListing>): string | undefined {
  if (!listing.ok) return listing.refusal.message
  return listing.value.problems.length === 0 ? undefined : listing.value.problems.join('; ')
}
