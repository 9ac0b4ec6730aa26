/**
 * The tickets as the tracker showed them last, and what follows: which are eligible, who waits for whom, and which
 * become runs by themselves.
 */

import type {
  Cancel,
  Clock,
  KeyValues,
  Log,
  RandomSource,
  TrackedTicket,
  Tracker,
  TrackerListing,
  Write,
} from '../../core/ports.ts'
import type { Result } from '../../core/result.ts'
import { openBlockers, waitingCycle, waitingReason } from '../../core/tickets/blockers.ts'
import { isEligible } from '../../core/tickets/eligibility.ts'
import { isSameName } from '../../core/tickets/names.ts'
import { compareTickets } from '../../core/tickets/order.ts'
import {
  observedAfter,
  observedBefore,
  observeEligibility,
  observeTicket,
  recordHostMove,
  recordHostState,
  shouldStartRun,
  type TicketObservation,
} from '../../core/tickets/run-trigger.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { TICKET_ID_BYTES_MAX, TICKET_MOVE_SHOWS_MS_MAX } from '../../protocol/limits.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { type TicketMove, TicketMoves } from './ticket-moves.ts'
import type { TrackerConnection } from './tracker-connection.ts'
import type { TrackerPollEffect, TrackerPollEvent } from './tracker-poll.machine.ts'

export interface TicketIntakePorts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly keyValues: KeyValues
  readonly trackerConnection: TrackerConnection
  readonly config: () => ServiceConfig
  readonly sendEvent: (event: TrackerPollEvent) => void
  readonly activeRunOf: (ticketId: string) => string | undefined
  /** Tickets with a run that is not at rest. */
  readonly activeTicketIds: () => Iterable<string>
  readonly lastFinishedAt: (ticket: Ticket) => string | undefined
  /** A run of this ticket is queued when this returns. */
  readonly queueRun: (ticket: Ticket) => void
  /** Somebody took it out of the eligible ones. */
  readonly onTicketLeft: (ticket: Ticket) => void
  /** What is eligible, or who blocks whom, may be another now. */
  readonly onTicketsChanged: (eligible: boolean) => void
  readonly requestCommit: () => void
}

export class TicketIntake implements CommitParticipant {
  readonly moves: TicketMoves
  readonly #ports: TicketIntakePorts
  /** Moved while the current look was under way: what that look says of their states may be the past. */
  #movedDuringPoll = new Set<string>()
  /** The states out of which tickets were moved just now, for trackers that take a while to show it. */
  readonly #statesLeft = new Map<string, { readonly states: readonly string[]; readonly until: number }>()
  #cancelWatch: Cancel = () => {}
  #cancelWait: Cancel = () => {}
  #listed: ReadonlyMap<string, TrackedTicket> = new Map()
  /** What is known of the tickets is this tracker's word. */
  #hasListing = false
  #eligible: readonly Ticket[] = []
  #fingerprint = '[]'
  /** Changed, and not landed yet. */
  readonly #memories = new Map<string, TicketObservation>()
  #toWrite = new Map<string, TicketObservation>()

  constructor(ports: TicketIntakePorts) {
    this.#ports = ports
    this.moves = new TicketMoves({
      ...ports,
      ask: (errand) => ports.trackerConnection.ask(errand),
      allowedOrigins: (move) => this.#allowedOrigins(move),
      onAnswered: (move, how) => {
        this.#movedDuringPoll.add(move.ticketId)
        this.#onMoveAnswered(move, how)
        ports.sendEvent({ type: 'touched' })
      },
    })
  }

  // ---- what is known -----------------------------------------------------------------------------------------------

  /** In the order in which they are taken. */
  eligible(): readonly Ticket[] {
    return this.#eligible
  }

  find(asked: string): Ticket | undefined {
    const byId = this.#listed.get(asked)
    if (byId !== undefined) return byId.ticket
    for (const { ticket } of this.#listed.values()) if (ticket.identifier === asked) return ticket
    return undefined
  }

  /** The tracker's newest word, not what a run was made of. */
  currentTicket(ticket: Ticket): Ticket {
    return this.#listed.get(ticket.id)?.ticket ?? ticket
  }

  /** Who holds this ticket up, as a sentence. */
  waitingFor(ticket: Ticket): string | undefined {
    const current = this.currentTicket(ticket)
    const blockers = openBlockers(current, this.#listed)
    return blockers.length === 0 ? undefined : waitingReason(blockers, waitingCycle(current, this.#listed))
  }

  // ---- the tracker -------------------------------------------------------------------------------------------------

  /** Other rules may be in force. */
  onConfigChange(): void {
    this.#evaluate()
  }

  /** It is another tracker now, or none. */
  onTrackerReplaced(tracker: Tracker | undefined): void {
    this.#cancelWatch()
    this.#cancelWatch = tracker?.watch(() => this.#ports.sendEvent({ type: 'touched' })) ?? (() => {})
    this.#hasListing = false
    if (tracker === undefined) this.#applyListing({ tickets: [], problems: [] })
  }

  stop(): void {
    this.#cancelWatch()
    this.#cancelWait()
    this.moves.stop()
  }

  runEffect(effect: TrackerPollEffect): void {
    this.#cancelWait()
    if (effect.type === 'intake.look') void this.#poll()
    else
      this.#cancelWait = this.#ports.clock.after(effect.ms, () => this.#ports.sendEvent({ type: 'rested' }))
  }

  async #poll(): Promise<void> {
    const { activeTicketIds: busy, config, trackerConnection, sendEvent: tell } = this.#ports
    const { epoch } = trackerConnection
    this.#movedDuringPoll = new Set()
    const query = { rules: config().tracker.eligible, tickets: [...busy()] }
    const listing = await trackerConnection.ask((tracker) => tracker.listTickets(query))
    // Another one was configured meanwhile: its own look is under way.
    if (epoch !== trackerConnection.epoch) return
    if (listing.ok) this.#applyListing(listing.value)
    // That it does not take our credential, the link knows.
    if (listing.ok || listing.refusal.kind !== 'unauthorized')
      trackerConnection.reportAnswer(problemOf(listing))
    tell({ type: 'looked' })
  }

  // ---- what follows ------------------------------------------------------------------------------------------------

  #applyListing({ tickets }: TrackerListing): void {
    // A longer id could not be remembered: one such ticket must not keep the others from being.
    const tracked = tickets.filter(({ ticket }) => Buffer.byteLength(ticket.id) <= TICKET_ID_BYTES_MAX)
    if (tracked.length < tickets.length)
      this.#ports.log.warn(
        { tickets: tickets.length - tracked.length },
        'tickets with overlong ids are left out',
      )
    this.#listed = new Map(tracked.map((tracked) => [tracked.ticket.id, tracked]))
    this.#hasListing = true
    this.#evaluate()
  }

  #evaluate(): void {
    const rules = this.#ports.config().tracker.eligible
    const all = [...this.#listed.values()]
    const eligible = all.filter((tracked) => isEligible(tracked, rules)).map(({ ticket }) => ticket)
    this.#eligible = eligible.sort(compareTickets)
    const eligibleIds = new Set(this.#eligible.map(({ id }) => id))
    for (const { ticket } of all) {
      this.#remember(ticket)
      this.#updateEligibility(ticket, eligibleIds.has(ticket.id))
    }
    for (const ticket of this.#eligible) this.#queueRunIfWanted(ticket)
    const fingerprint = JSON.stringify(this.#eligible)
    const changed = fingerprint !== this.#fingerprint
    this.#fingerprint = fingerprint
    this.#ports.onTicketsChanged(changed)
  }

  #remember(ticket: Ticket): void {
    if (this.moves.isMoving(ticket.id) || this.#movedDuringPoll.has(ticket.id)) return
    if (this.#isOutdatedState(ticket)) return
    const known = this.#memoryOf(ticket.id)
    const memory = observeTicket(known, ticket, new Date(this.#ports.clock.now()).toISOString())
    if (memory === known) return
    const isNew = known === undefined
    this.#setMemory(ticket.id, isNew ? memory : observedAfter(memory, this.#ports.lastFinishedAt(ticket)))
  }

  /** Not eligible any more, unless the host itself has moved it where it is. */
  #updateEligibility(ticket: Ticket, isEligible: boolean): void {
    const known = this.#memoryOf(ticket.id)
    if (known === undefined || (!isEligible && this.#wasMovedByHost(ticket))) return
    const memory = observeEligibility(known, isEligible)
    if (memory === known) return
    this.#setMemory(ticket.id, memory)
    if (!isEligible) this.#ports.onTicketLeft(ticket)
  }

  #wasMovedByHost(ticket: Ticket): boolean {
    if (
      this.moves.isMoving(ticket.id) ||
      this.#movedDuringPoll.has(ticket.id) ||
      this.#statesLeft.has(ticket.id)
    )
      return true
    const put = this.#memoryOf(ticket.id)?.put
    return put !== undefined && isSameName(put, ticket.state)
  }

  /** The host moves the ticket itself, which is no news about it. */
  moveTicket(ticketId: string, state: string): void {
    const known = this.#memoryOf(ticketId)
    if (known === undefined) return
    // The tracker does not show it: somebody took it away, and it is not ours to move. Not looked at yet, it can't show
    // anything, and says itself what it does not have.
    if (this.#hasListing && !this.#listed.has(ticketId)) return
    this.#rememberState(ticketId, state)
    this.moves.request(ticketId, state, known.state)
  }

  /** What was seen of its ticket was seen before that, also when the wall clock was set back in between. */
  onRunEnded({ ticket, finishedAt }: Run): void {
    const known = this.#memoryOf(ticket.id)
    if (known === undefined || finishedAt === undefined) return
    const memory = observedBefore(known, finishedAt)
    if (memory !== known) this.#setMemory(ticket.id, memory)
  }

  /**
   * Work that begins does not bring a ticket back that somebody has taken away since it was looked at last: out of
   * other states than the host would take it from, or put it in itself, it is not moved, but looked at.
   */
  #allowedOrigins({ state, from }: TicketMove): readonly string[] | undefined {
    const { startedState, reviewState, eligible } = this.#ports.config().tracker
    if (from === undefined || startedState === undefined || !isSameName(state, startedState)) return undefined
    return [from, startedState, ...(reviewState === undefined ? [] : [reviewState]), ...eligible.states]
  }

  /** Seen where it was, the ticket has not changed: else a run's end would be a reason to run it again, without end. */
  #onMoveAnswered({ ticketId, state, from }: TicketMove, how: 'moved' | 'refused'): void {
    const known = this.#memoryOf(ticketId)
    if (how === 'moved' && known !== undefined) this.#setMemory(ticketId, recordHostState(known, state))
    if (from === undefined) return
    if (how === 'refused') {
      this.#rememberState(ticketId, from)
      return
    }
    const now = this.#ports.clock.monotonic()
    for (const [id, { until }] of this.#statesLeft) if (until <= now) this.#statesLeft.delete(id)
    // Of two moves in short order, the first may not be shown yet either.
    const before = (this.#statesLeft.get(ticketId)?.states ?? []).filter((one) => !isSameName(one, state))
    this.#statesLeft.set(ticketId, { states: [...before, from], until: now + TICKET_MOVE_SHOWS_MS_MAX })
  }

  /** The tracker has moved it, and does not show that yet. */
  #isOutdatedState({ id, state }: Ticket): boolean {
    const left = this.#statesLeft.get(id)
    if (left === undefined) return false
    const isOld = left.states.some((one) => isSameName(one, state))
    if (isOld && this.#ports.clock.monotonic() < left.until) return true
    this.#statesLeft.delete(id)
    return false
  }

  #rememberState(ticketId: string, state: string): void {
    const known = this.#memoryOf(ticketId)
    if (known === undefined) return
    const memory = recordHostMove(known, state)
    if (memory !== known) this.#setMemory(ticketId, memory)
  }

  #queueRunIfWanted(ticket: Ticket): void {
    const memory = this.#memoryOf(ticket.id)
    if (memory === undefined) return
    const hasActiveRun = this.#ports.activeRunOf(ticket.id) !== undefined
    const lastFinishedAt = hasActiveRun ? undefined : this.#ports.lastFinishedAt(ticket)
    if (shouldStartRun({ eligible: true, memory, hasActiveRun, lastFinishedAt })) this.#ports.queueRun(ticket)
  }

  #memoryOf(ticketId: string): TicketObservation | undefined {
    // Only this class writes to the shelf.
    return (
      this.#memories.get(ticketId) ??
      (this.#ports.keyValues.get('ticket', ticketId) as TicketObservation | undefined)
    )
  }

  #setMemory(ticketId: string, memory: TicketObservation): void {
    this.#memories.set(ticketId, memory)
    this.#toWrite.set(ticketId, memory)
    this.#ports.requestCommit()
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0) return undefined
    const written = this.#toWrite
    this.#toWrite = new Map()
    return {
      writes: [...written].map(
        ([key, value]): Write => ({ table: 'key-value', collection: 'ticket', key, value }),
      ),
      onCommitted: () => {
        for (const [id, memory] of written) if (this.#memories.get(id) === memory) this.#memories.delete(id)
      },
    }
  }
}

function problemOf(looked: Result<TrackerListing>): string | undefined {
  if (!looked.ok) return looked.refusal.message
  return looked.value.problems.length === 0 ? undefined : looked.value.problems.join('; ')
}
