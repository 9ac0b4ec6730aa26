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
import { openBlockers, waitingCircle, waitingFor } from '../../core/tickets/blockers.ts'
import { isEligible } from '../../core/tickets/eligibility.ts'
import { sameName } from '../../core/tickets/names.ts'
import { compareTickets } from '../../core/tickets/order.ts'
import {
  movedByHost,
  putByHost,
  seen,
  seenAfter,
  seenBefore,
  seenEligible,
  type TicketMemory,
  wantsRun,
} from '../../core/tickets/run-trigger.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { TICKET_ID_BYTES_MAX, TICKET_MOVE_SHOWS_MS_MAX } from '../../protocol/limits.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { type Move, Moves } from './ticket-moves.ts'
import type { LinkRoom } from './tracker-connection.ts'
import type { IntakeEffect, IntakeEvent } from './tracker-poll.machine.ts'

export interface IntakePorts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly keyValues: KeyValues
  readonly link: LinkRoom
  readonly config: () => ServiceConfig
  readonly tell: (event: IntakeEvent) => void
  readonly activeRun: (ticketId: string) => string | undefined
  /** Tickets with a run that is not at rest. */
  readonly busy: () => Iterable<string>
  readonly lastFinishedAt: (ticket: Ticket) => string | undefined
  /** A run of this ticket is queued when this returns. */
  readonly take: (ticket: Ticket) => void
  /** Somebody took it out of the eligible ones. */
  readonly left: (ticket: Ticket) => void
  /** What is eligible, or who blocks whom, may be another now. */
  readonly changed: (eligible: boolean) => void
  readonly requestCommit: () => void
}

export class IntakeRoom implements CommitParticipant {
  readonly moves: Moves
  readonly #ports: IntakePorts
  /** Moved while the current look was under way: what that look says of their states may be the past. */
  #movedMeanwhile = new Set<string>()
  /** The states out of which tickets were moved just now, for trackers that take a while to show it. */
  readonly #left = new Map<string, { readonly states: readonly string[]; readonly until: number }>()
  #unwatch: Cancel = () => {}
  #rested: Cancel = () => {}
  #byId: ReadonlyMap<string, TrackedTicket> = new Map()
  /** What is known of the tickets is this tracker's word. */
  #looked = false
  #eligible: readonly Ticket[] = []
  #fingerprint = '[]'
  /** Changed, and not landed yet. */
  readonly #memories = new Map<string, TicketMemory>()
  #toWrite = new Map<string, TicketMemory>()

  constructor(ports: IntakePorts) {
    this.#ports = ports
    this.moves = new Moves({
      ...ports,
      ask: (errand) => ports.link.ask(errand),
      origins: (move) => this.#origins(move),
      answered: (move, how) => {
        this.#movedMeanwhile.add(move.ticketId)
        this.#settle(move, how)
        ports.tell({ type: 'touched' })
      },
    })
  }

  // ---- what is known -----------------------------------------------------------------------------------------------

  /** In the order in which they are taken. */
  eligible(): readonly Ticket[] {
    return this.#eligible
  }

  find(asked: string): Ticket | undefined {
    const byId = this.#byId.get(asked)
    if (byId !== undefined) return byId.ticket
    for (const { ticket } of this.#byId.values()) if (ticket.identifier === asked) return ticket
    return undefined
  }

  /** The tracker's newest word, not what a run was made of. */
  current(ticket: Ticket): Ticket {
    return this.#byId.get(ticket.id)?.ticket ?? ticket
  }

  /** Who holds this ticket up, as a sentence. */
  waitingFor(ticket: Ticket): string | undefined {
    const current = this.current(ticket)
    const blockers = openBlockers(current, this.#byId)
    return blockers.length === 0 ? undefined : waitingFor(blockers, waitingCircle(current, this.#byId))
  }

  // ---- the tracker -------------------------------------------------------------------------------------------------

  /** Other rules may be in force. */
  configured(): void {
    this.#consider()
  }

  /** It is another tracker now, or none. */
  replaced(tracker: Tracker | undefined): void {
    this.#unwatch()
    this.#unwatch = tracker?.watch(() => this.#ports.tell({ type: 'touched' })) ?? (() => {})
    this.#looked = false
    if (tracker === undefined) this.#picture({ tickets: [], problems: [] })
  }

  stop(): void {
    this.#unwatch()
    this.#rested()
    this.moves.stop()
  }

  do(effect: IntakeEffect): void {
    this.#rested()
    if (effect.type === 'intake.look') void this.#look()
    else this.#rested = this.#ports.clock.after(effect.ms, () => this.#ports.tell({ type: 'rested' }))
  }

  async #look(): Promise<void> {
    const { busy, config, link, tell } = this.#ports
    const { epoch } = link
    this.#movedMeanwhile = new Set()
    const wish = { rules: config().tracker.eligible, tickets: [...busy()] }
    const looked = await link.ask((tracker) => tracker.listTickets(wish))
    // Another one was configured meanwhile: its own look is under way.
    if (epoch !== link.epoch) return
    if (looked.ok) this.#picture(looked.value)
    // That it does not take our credential, the link knows.
    if (looked.ok || looked.refusal.kind !== 'unauthorized') link.answered(problemOf(looked))
    tell({ type: 'looked' })
  }

  // ---- what follows ------------------------------------------------------------------------------------------------

  #picture({ tickets }: TrackerListing): void {
    // A longer id could not be remembered: one such ticket must not keep the others from being.
    const known = tickets.filter(({ ticket }) => Buffer.byteLength(ticket.id) <= TICKET_ID_BYTES_MAX)
    if (known.length < tickets.length)
      this.#ports.log.warn(
        { tickets: tickets.length - known.length },
        'tickets with overlong ids are left out',
      )
    this.#byId = new Map(known.map((tracked) => [tracked.ticket.id, tracked]))
    this.#looked = true
    this.#consider()
  }

  #consider(): void {
    const rules = this.#ports.config().tracker.eligible
    const all = [...this.#byId.values()]
    const eligible = all.filter((tracked) => isEligible(tracked, rules)).map(({ ticket }) => ticket)
    this.#eligible = eligible.sort(compareTickets)
    const isNow = new Set(this.#eligible.map(({ id }) => id))
    for (const { ticket } of all) {
      this.#remember(ticket)
      this.#noteEligible(ticket, isNow.has(ticket.id))
    }
    for (const ticket of this.#eligible) this.#maybeTake(ticket)
    const fingerprint = JSON.stringify(this.#eligible)
    const changed = fingerprint !== this.#fingerprint
    this.#fingerprint = fingerprint
    this.#ports.changed(changed)
  }

  #remember(ticket: Ticket): void {
    if (this.moves.isUnderWay(ticket.id) || this.#movedMeanwhile.has(ticket.id)) return
    if (this.#lags(ticket)) return
    const known = this.#memoryOf(ticket.id)
    const memory = seen(known, ticket, new Date(this.#ports.clock.now()).toISOString())
    if (memory === known) return
    const isNew = known === undefined
    this.#keep(ticket.id, isNew ? memory : seenAfter(memory, this.#ports.lastFinishedAt(ticket)))
  }

  /** Not eligible any more, unless the host itself has moved it where it is. */
  #noteEligible(ticket: Ticket, isEligible: boolean): void {
    const known = this.#memoryOf(ticket.id)
    if (known === undefined || (!isEligible && this.#isWhereWePutIt(ticket))) return
    const memory = seenEligible(known, isEligible)
    if (memory === known) return
    this.#keep(ticket.id, memory)
    if (!isEligible) this.#ports.left(ticket)
  }

  #isWhereWePutIt(ticket: Ticket): boolean {
    if (this.moves.isUnderWay(ticket.id) || this.#movedMeanwhile.has(ticket.id) || this.#left.has(ticket.id))
      return true
    const put = this.#memoryOf(ticket.id)?.put
    return put !== undefined && sameName(put, ticket.state)
  }

  /** The host moves the ticket itself, which is no news about it. */
  move(ticketId: string, state: string): void {
    const known = this.#memoryOf(ticketId)
    if (known === undefined) return
    // The tracker does not show it: somebody took it away, and it is not ours to move. Not looked at yet, it can't show
    // anything, and says itself what it does not have.
    if (this.#looked && !this.#byId.has(ticketId)) return
    this.#rememberAt(ticketId, state)
    this.moves.move(ticketId, state, known.state)
  }

  /** What was seen of its ticket was seen before that, also when the wall clock was set back in between. */
  ended({ ticket, finishedAt }: Run): void {
    const known = this.#memoryOf(ticket.id)
    if (known === undefined || finishedAt === undefined) return
    const memory = seenBefore(known, finishedAt)
    if (memory !== known) this.#keep(ticket.id, memory)
  }

  /**
   * Work that begins does not bring a ticket back that somebody has taken away since it was looked at last: out of
   * other states than the host would take it from, or put it in itself, it is not moved, but looked at.
   */
  #origins({ state, from }: Move): readonly string[] | undefined {
    const { startedState, reviewState, eligible } = this.#ports.config().tracker
    if (from === undefined || startedState === undefined || !sameName(state, startedState)) return undefined
    return [from, startedState, ...(reviewState === undefined ? [] : [reviewState]), ...eligible.states]
  }

  /** Seen where it was, the ticket has not changed: else a run's end would be a reason to run it again, without end. */
  #settle({ ticketId, state, from }: Move, how: 'moved' | 'refused'): void {
    const known = this.#memoryOf(ticketId)
    if (how === 'moved' && known !== undefined) this.#keep(ticketId, putByHost(known, state))
    if (from === undefined) return
    if (how === 'refused') {
      this.#rememberAt(ticketId, from)
      return
    }
    const now = this.#ports.clock.monotonic()
    for (const [id, { until }] of this.#left) if (until <= now) this.#left.delete(id)
    // Of two moves in short order, the first may not be shown yet either.
    const before = (this.#left.get(ticketId)?.states ?? []).filter((one) => !sameName(one, state))
    this.#left.set(ticketId, { states: [...before, from], until: now + TICKET_MOVE_SHOWS_MS_MAX })
  }

  /** The tracker has moved it, and does not show that yet. */
  #lags({ id, state }: Ticket): boolean {
    const left = this.#left.get(id)
    if (left === undefined) return false
    const isOld = left.states.some((one) => sameName(one, state))
    if (isOld && this.#ports.clock.monotonic() < left.until) return true
    this.#left.delete(id)
    return false
  }

  #rememberAt(ticketId: string, state: string): void {
    const known = this.#memoryOf(ticketId)
    if (known === undefined) return
    const memory = movedByHost(known, state)
    if (memory !== known) this.#keep(ticketId, memory)
  }

  #maybeTake(ticket: Ticket): void {
    const memory = this.#memoryOf(ticket.id)
    if (memory === undefined) return
    const hasActiveRun = this.#ports.activeRun(ticket.id) !== undefined
    const lastFinishedAt = hasActiveRun ? undefined : this.#ports.lastFinishedAt(ticket)
    if (wantsRun({ eligible: true, memory, hasActiveRun, lastFinishedAt })) this.#ports.take(ticket)
  }

  #memoryOf(ticketId: string): TicketMemory | undefined {
    // Only this class writes to the shelf.
    return (
      this.#memories.get(ticketId) ??
      (this.#ports.keyValues.get('ticket', ticketId) as TicketMemory | undefined)
    )
  }

  #keep(ticketId: string, memory: TicketMemory): void {
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
