/** Adds up eligible tickets, one at a time: how many a filter finds, what their runs do, and what the tickets differ in. */
import { TICKET_SUMMARY_NAMES_MAX } from '../../protocol/limits.ts'
import type { Ticket } from '../../protocol/run.ts'
import { createTicketFilter, type TicketFilter, type TicketSituation } from '../../protocol/ticket-filter.ts'
import type { TicketSummary } from '../../protocol/ticket-query.ts'

export class TicketSummarizer {
  readonly #wanted: TicketSituation | undefined
  readonly #fits: ReturnType<typeof createTicketFilter>
  readonly #runs = { progress: 0, waits: 0, blocked: 0, none: 0 }
  readonly #states = new Set<string>()
  readonly #labels = new Set<string>()
  readonly #repos = new Set<string>()
  readonly #priorities = new Set<Ticket['priority']>()
  #total = 0

  constructor({ run, ...others }: TicketFilter) {
    this.#wanted = run
    this.#fits = createTicketFilter(others)
  }

  add(ticket: Ticket, situation: () => TicketSituation): void {
    this.#total += 1
    this.#states.add(ticket.state)
    for (const label of ticket.labels) this.#labels.add(label)
    if (ticket.repo !== undefined) this.#repos.add(ticket.repo)
    this.#priorities.add(ticket.priority)
    if (this.#fits(ticket, situation)) this.#runs[situation()] += 1
  }

  summary(): TicketSummary {
    const { progress, waits, blocked, none } = this.#runs
    return {
      count: this.#wanted === undefined ? progress + waits + blocked + none : this.#runs[this.#wanted],
      total: this.#total,
      runs: { ...this.#runs },
      states: listed(this.#states),
      labels: listed(this.#labels),
      repos: listed(this.#repos),
      priorities: [...this.#priorities].sort(),
    }
  }
}

const listed = (names: ReadonlySet<string>): string[] => [...names].sort().slice(0, TICKET_SUMMARY_NAMES_MAX)
