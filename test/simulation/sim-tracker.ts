/**
 * SimTracker is the simulated tracker: tickets appear, people and the service move them, and some block others.
 *
 * Answers come late and sometimes not at all. People close a ticket some time after it was moved to review. A ticket that
 * somebody else moved stays there.
 */
import type { Cancel } from '../../core/ports/clock.ts'
import type { Tracker, TrackerListing } from '../../core/ports/tracker.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { refuseMovedTicket } from '../../providers/tracker/tracker-driver.ts'
import type { Random } from '../support/random.ts'
import type { TicketPlan } from './plan.ts'
import type { Process, Timeline } from './timeline.ts'

export const ELIGIBLE = 'Todo'
export const STARTED = 'Started'
export const REVIEW = 'Review'
const SHELVED = 'Backlog'
const DONE = 'Done'
const EPOCH = Date.UTC(2026, 0, 1)
/** Covers the longest downtime of a host and the polls after it. */
const UNSEEN_MS_MAX = 8 * 60_000

interface SimTicket {
  readonly plan: TicketPlan
  state: string
  changedAt: number
  /** How often people have made the ticket eligible. */
  readonly entries: number
  /** When people last made it eligible, in a way that a host sees. */
  readonly enteredAt: number
  /** When the newest host first got a listing with the ticket as done; undefined before, and while it is not done. */
  listedDoneAt?: number | undefined
  /** When a host first got a listing with the ticket. */
  listedAt?: number | undefined
  readonly wasDone: boolean
}

/** A ticket as the laws see it. */
export interface TicketFacts {
  readonly id: string
  readonly state: string
  readonly entries: number
  readonly enteredAt: number
  /** Since when the newest host may know that nothing blocks it: no time before the tracker has told it so. */
  readonly freeSince: number
  /** Since when a host knows that a ticket blocks it which was never done; otherwise no time. */
  readonly blockedSince: number
}

export class SimTracker {
  readonly #time: Timeline
  readonly #random: Random
  readonly #tickets = new Map<string, SimTicket>()
  readonly #watchers = new Set<() => void>()
  #newestHost: Process | undefined
  #newestListingAt = Number.NEGATIVE_INFINITY
  /** Shows the service's ticket moves to the laws. */
  readonly #onTicketMoved: (ticketId: string, state: string) => void
  readonly #onMoveSent: (ticketId: string, by: Process) => void

  constructor(
    time: Timeline,
    random: Random,
    tickets: readonly TicketPlan[],
    {
      onTicketMoved,
      onMoveSent,
    }: {
      readonly onTicketMoved: (ticketId: string, state: string) => void
      readonly onMoveSent: (ticketId: string, by: Process) => void
    },
  ) {
    this.#time = time
    this.#random = random
    this.#onTicketMoved = onTicketMoved
    this.#onMoveSent = onMoveSent
    for (const plan of tickets) {
      time.at(plan.at, () => this.#setState(plan, ELIGIBLE, 1))
      for (const at of plan.toggledAt) time.at(at, () => this.#toggleTicket(plan))
    }
  }

  /** The tracker for one process of the host. As each driver does, it asks `maySend` when it would send a move. */
  viewFor(host: Process, maySend: () => boolean): Tracker {
    // A host whose tracker was configured anew knows of no ticket until it has listed that tracker.
    for (const ticket of this.#tickets.values()) ticket.listedDoneAt = undefined
    this.#newestHost = host
    return {
      listTickets: async () => {
        const listing = await this.#answerLater(host, () => this.#listing())
        if (listing.ok && host === this.#newestHost) this.#noteListed(listing.value)
        return listing
      },
      watch: (changed): Cancel => {
        const notify = () => void this.#time.in(100, changed, host)
        this.#watchers.add(notify)
        return () => this.#watchers.delete(notify)
      },
      moveTicket: (ticketId, state, from) => {
        if (!maySend()) return Promise.resolve(no('unavailable', 'the service is stopping'))
        this.#onMoveSent(ticketId, host)
        return this.#answerLater(host, () => {
          const ticket = this.#tickets.get(ticketId)
          if (ticket === undefined) return no('unknown', `there is no ticket ${ticketId}`)
          const isMovable = from?.includes(ticket.state) ?? ticket.state !== DONE
          if (ticket.state !== state && !isMovable) return refuseMovedTicket(ticketId, ticket.state)
          this.#onTicketMoved(ticketId, state)
          this.#setState(ticket.plan, state)
          if (state === REVIEW) this.#time.in(60_000, () => this.#setState(ticket.plan, DONE))
          return yes(undefined)
        })
      },
      linkPull: () => this.#answerLater(host, () => yes(undefined)),
      projects: () => this.#answerLater(host, () => yes([])),
    }
  }

  facts(): TicketFacts[] {
    return [...this.#tickets.values()].map(({ plan, state, entries, enteredAt }) => {
      const facts = { id: plan.id, state, entries, enteredAt }
      const never = Number.POSITIVE_INFINITY
      if (plan.blockedBy === undefined) return { ...facts, freeSince: 0, blockedSince: never }
      const blocker = this.#tickets.get(plan.blockedBy)
      const blockedSince = blocker?.wasDone === false ? (blocker.listedAt ?? never) : never
      return { ...facts, freeSince: blocker?.listedDoneAt ?? never, blockedSince }
    })
  }

  #answerLater<T>(host: Process, answer: () => Result<T>): Promise<Result<T>> {
    return new Promise((resolve) => {
      const ms = 5 + this.#random.fraction() * 500
      const fails = this.#random.chance(0.02)
      if (host.dead) return
      // A request that was sent has its effect, whatever becomes of the host meanwhile.
      this.#time.in(ms, () => {
        const result = fails ? no('failed', 'the tracker did not answer') : answer()
        this.#time.in(0, () => resolve(result), host)
      })
    })
  }

  #listing(): Result<TrackerListing> {
    const tickets = [...this.#tickets.values()].map(({ plan, state, changedAt }) => ({
      closed: state === DONE,
      ticket: {
        id: plan.id,
        identifier: plan.id.toUpperCase(),
        title: `ticket ${plan.id}`,
        description: '',
        url: '',
        state,
        priority: plan.priority,
        labels: [],
        repo: 'web',
        blockedBy: plan.blockedBy === undefined ? [] : [plan.blockedBy],
        createdAt: new Date(EPOCH + plan.at).toISOString(),
        updatedAt: new Date(EPOCH + changedAt).toISOString(),
      },
    }))
    return yes({ tickets, problems: [] })
  }

  /** Notes which tickets a host now knows to be done, unless they were opened again meanwhile. */
  #noteListed({ tickets }: TrackerListing): void {
    this.#newestListingAt = this.#time.now
    for (const { closed, ticket } of tickets) {
      const own = this.#tickets.get(ticket.id)
      if (own === undefined) continue
      own.listedAt ??= this.#time.now
      if (closed && own.state === DONE) own.listedDoneAt ??= this.#time.now
    }
  }

  #toggleTicket(plan: TicketPlan): void {
    if (this.#tickets.get(plan.id)?.state === ELIGIBLE) this.#setState(plan, SHELVED)
    else this.#setState(plan, ELIGIBLE, 1)
  }

  #setState(plan: TicketPlan, state: string, newEntries = 0): void {
    const before = this.#tickets.get(plan.id)
    const entries = (before?.entries ?? 0) + newEntries
    const { now } = this.#time
    // A host that was down or asleep, or saw no listing, can't know of a ticket that left and came back meanwhile.
    const leftAt = before?.changedAt ?? 0
    const isSeen = newEntries > 0 && now - leftAt >= UNSEEN_MS_MAX && this.#newestListingAt > leftAt
    const enteredAt = isSeen || before === undefined ? now : before.enteredAt
    const known = { listedAt: before?.listedAt, wasDone: before?.wasDone === true || state === DONE }
    this.#tickets.set(plan.id, { plan, state, changedAt: Math.floor(now), entries, enteredAt, ...known })
    for (const notify of this.#watchers) notify()
  }
}
