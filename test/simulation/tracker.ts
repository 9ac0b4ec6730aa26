/**
 * The tracker next door: tickets appear, are moved about by people and by the service, and wait for each other.
 *
 * It answers late and sometimes not at all. People close a ticket some time after it was moved to review.
 */
import type { Cancel, Tracker, TrackerListing } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { Random } from '../support/random.ts'
import type { TicketPlan } from './plan.ts'
import type { Process, Timeline } from './timeline.ts'

export const ELIGIBLE = 'Todo'
export const STARTED = 'Started'
export const REVIEW = 'Review'
const SHELVED = 'Backlog'
const DONE = 'Done'
const EPOCH = Date.UTC(2026, 0, 1)

interface Paper {
  readonly plan: TicketPlan
  state: string
  changedAt: number
}

export class SimTracker {
  readonly #time: Timeline
  readonly #random: Random
  readonly #papers = new Map<string, Paper>()
  readonly #watchers = new Set<() => void>()
  /** What the service asked for, for those who look at whether it may. */
  readonly #moved: (ticketId: string, state: string) => void

  constructor(
    time: Timeline,
    random: Random,
    tickets: readonly TicketPlan[],
    moved: (ticketId: string, state: string) => void,
  ) {
    this.#time = time
    this.#random = random
    this.#moved = moved
    for (const plan of tickets) {
      time.at(plan.at, () => this.#put(plan, ELIGIBLE))
      for (const at of plan.moves) time.at(at, () => this.#toggle(plan))
    }
  }

  /** As one life of the host sees it. */
  seenBy(host: Process): Tracker {
    return {
      listTickets: () => this.#later(host, () => this.#picture()),
      watch: (changed): Cancel => {
        const tell = () => void this.#time.in(100, changed, host)
        this.#watchers.add(tell)
        return () => this.#watchers.delete(tell)
      },
      moveTicket: (ticketId, state) =>
        this.#later(host, () => {
          const paper = this.#papers.get(ticketId)
          if (paper === undefined) return no('unknown', `there is no ticket ${ticketId}`)
          this.#moved(ticketId, state)
          this.#put(paper.plan, state)
          if (state === REVIEW) this.#time.in(60_000, () => this.#put(paper.plan, DONE))
          return yes(undefined)
        }),
      linkPull: () => this.#later(host, () => yes(undefined)),
      projects: () => this.#later(host, () => yes([])),
    }
  }

  #later<T>(host: Process, answer: () => Result<T>): Promise<Result<T>> {
    return new Promise((resolve) => {
      const ms = 5 + this.#random.fraction() * 500
      const fails = this.#random.random(0.02)
      if (host.dead) return
      const give = () => resolve(fails ? no('failed', 'the tracker did not answer') : answer())
      this.#time.in(ms, give, host)
    })
  }

  #picture(): Result<TrackerListing> {
    const tickets = [...this.#papers.values()].map(({ plan, state, changedAt }) => ({
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

  #toggle(plan: TicketPlan): void {
    this.#put(plan, this.#papers.get(plan.id)?.state === ELIGIBLE ? SHELVED : ELIGIBLE)
  }

  #put(plan: TicketPlan, state: string): void {
    this.#papers.set(plan.id, { plan, state, changedAt: Math.floor(this.#time.now) })
    for (const tell of this.#watchers) tell()
  }
}
