/**
 * The tickets as the tracker showed them last, and what follows: which are eligible, who waits for whom, and which
 * become runs by themselves.
 */

import { answerWithin } from '../../core/patience.ts'
import type {
  Cancel,
  Chance,
  Clock,
  Facts,
  Log,
  TrackedTicket,
  Tracker,
  TrackerPicture,
  Write,
} from '../../core/ports.ts'
import { openBlockers, waitingCircle, waitingFor } from '../../core/tickets/blockers.ts'
import { movedByHost, seen, type TicketMemory, wantsRun } from '../../core/tickets/changes.ts'
import { isEligible } from '../../core/tickets/eligibility.ts'
import { sameName } from '../../core/tickets/names.ts'
import { compareTickets } from '../../core/tickets/order.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import {
  TEXT_CHARS_MAX,
  TICKET_ID_BYTES_MAX,
  TICKET_MOVE_SHOWS_MS_MAX,
  TRACKER_ANSWER_MS_MAX,
} from '../../protocol/limits.ts'
import type { Ticket } from '../../protocol/run.ts'
import type { CutGuest, CutShare } from '../kit/commit.ts'
import type { IntakeEffect, IntakeEvent } from './intake.machine.ts'
import { type Move, Moves } from './moves.ts'

export interface IntakePorts {
  readonly clock: Clock
  readonly chance: Chance
  readonly log: Log
  readonly facts: Facts
  readonly trackerFor: (config: ServiceConfig) => Tracker | undefined
  readonly config: () => ServiceConfig
  readonly tell: (event: IntakeEvent) => void
  readonly activeRun: (ticketId: string) => string | undefined
  /** Tickets with a run that is not at rest. */
  readonly busy: () => Iterable<string>
  readonly lastFinishedAt: (ticket: Ticket) => string | undefined
  /** A run of this ticket is queued when this returns. */
  readonly take: (ticket: Ticket) => void
  /** What is eligible, or who blocks whom, may be another now. */
  readonly changed: (eligible: boolean) => void
  readonly stir: () => void
}

export class IntakeRoom implements CutGuest {
  readonly moves: Moves
  readonly #ports: IntakePorts
  /** Moved while the current look was under way: what that look says of their states may be the past. */
  #movedMeanwhile = new Set<string>()
  /** The states out of which tickets were moved just now, for trackers that take a while to show it. */
  readonly #left = new Map<string, { readonly state: string; readonly until: number }>()
  #tracker: Tracker | undefined
  #unwatch: Cancel = () => {}
  #rested: Cancel = () => {}
  #configured = ''
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
      tracker: () => this.#tracker,
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

  /** The configuration may have changed: whether it is another tracker, or only other rules, is found out here. */
  configure(): void {
    const { config, tell } = this.#ports
    const { tracker } = config()
    const { eligible: _, startedState: __, reviewState: ___, ...connection } = tracker
    const configured = JSON.stringify(connection)
    if (configured === this.#configured) {
      this.#consider()
      return
    }
    this.#configured = configured
    this.#unwatch()
    this.#unwatch = () => {}
    this.#tracker = this.#ports.trackerFor(config())
    this.#looked = false
    if (this.#tracker === undefined) {
      this.#picture({ tickets: [], problems: [] })
      tell({ type: 'unconfigured' })
      return
    }
    this.#unwatch = this.#tracker.watch(() => tell({ type: 'touched' }))
    tell({ type: 'configured', pollMs: tracker.pollSeconds * 1000 })
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
    const tracker = this.#tracker
    const event = await this.#seen(tracker)
    // Another one was configured meanwhile: its own look is under way.
    if (tracker === this.#tracker) this.#ports.tell(event)
  }

  async #seen(tracker: Tracker | undefined): Promise<IntakeEvent> {
    this.#movedMeanwhile = new Set()
    try {
      if (tracker === undefined) return { type: 'unconfigured' }
      const looked = await answerWithin(
        this.#ports.clock,
        TRACKER_ANSWER_MS_MAX,
        tracker.look({ rules: this.#ports.config().tracker.eligible, tickets: [...this.#ports.busy()] }),
        'the tracker',
      )
      if (!looked.ok) {
        const { kind, message } = looked.refusal
        const problem = message.slice(0, TEXT_CHARS_MAX)
        return kind === 'unauthorized' ? { type: 'shut out', problem } : { type: 'not seen', problem }
      }
      if (tracker === this.#tracker) this.#picture(looked.value)
      const problem = looked.value.problems.join('; ').slice(0, TEXT_CHARS_MAX)
      return { type: 'seen', problem: problem === '' ? null : problem }
    } catch (error) {
      this.#ports.log.error({ err: error }, 'the tracker could not be read')
      return { type: 'not seen', problem: 'the tracker could not be read; the log says why' }
    }
  }

  // ---- what follows ------------------------------------------------------------------------------------------------

  #picture({ tickets }: TrackerPicture): void {
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
    for (const { ticket } of all) this.#remember(ticket)
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
    if (memory !== known) this.#keep(ticket.id, memory)
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

  /** Seen where it was, the ticket has not changed: else a run's end would be a reason to run it again, without end. */
  #settle({ ticketId, from }: Move, how: 'moved' | 'refused'): void {
    if (from === undefined) return
    if (how === 'refused') {
      this.#rememberAt(ticketId, from)
      return
    }
    const now = this.#ports.clock.monotonic()
    for (const [id, { until }] of this.#left) if (until <= now) this.#left.delete(id)
    this.#left.set(ticketId, { state: from, until: now + TICKET_MOVE_SHOWS_MS_MAX })
  }

  /** The tracker has moved it, and does not show that yet. */
  #lags({ id, state }: Ticket): boolean {
    const left = this.#left.get(id)
    if (left === undefined) return false
    if (sameName(left.state, state) && this.#ports.clock.monotonic() < left.until) return true
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
      this.#memories.get(ticketId) ?? (this.#ports.facts.get('ticket', ticketId) as TicketMemory | undefined)
    )
  }

  #keep(ticketId: string, memory: TicketMemory): void {
    this.#memories.set(ticketId, memory)
    this.#toWrite.set(ticketId, memory)
    this.#ports.stir()
  }

  join(): CutShare | undefined {
    if (this.#toWrite.size === 0) return undefined
    const written = this.#toWrite
    this.#toWrite = new Map()
    return {
      writes: [...written].map(([key, value]): Write => ({ table: 'fact', shelf: 'ticket', key, value })),
      landed: () => {
        for (const [id, memory] of written) if (this.#memories.get(id) === memory) this.#memories.delete(id)
      },
    }
  }
}
