/** Fake Linear, our driver for it, and one manual clock for both. */
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import type { PullLink, Tracker, TrackerListing, TrackerQuery } from '../../../../core/ports/tracker.ts'
import type { Result } from '../../../../core/result.ts'
import { isEligible } from '../../../../core/tickets/eligibility.ts'
import { configDefaults } from '../../../../protocol/config.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import { Ticket } from '../../../../protocol/run.ts'
import { HttpClientPool } from '../../../../providers/http/client-pool.ts'
import { createHttp } from '../../../../providers/http/http.ts'
import type { Http } from '../../../../providers/http/http-types.ts'
import { createTracker } from '../../../../providers/tracker/registry.ts'
import { type FakeLinear, type FakeLinearOptions, startLinear } from '../../../support/linear/linear.ts'
import { createRecordingLog, type RecordingLog } from '../../../support/recording-log.ts'

export type EligibleRules = TrackerQuery['rules']

export const NO_RULES: EligibleRules = { states: [], labels: [], projects: [], assignees: [] }
export const TODO: EligibleRules = configDefaults.tracker.eligible

const checkTicket = createChecker(Ticket)

export class LinearBench {
  readonly linear: FakeLinear
  readonly log: RecordingLog = createRecordingLog()
  readonly http: Http
  readonly clients: HttpClientPool
  readonly tracker: Tracker
  #elapsed = 0

  constructor(linear: FakeLinear) {
    this.linear = linear
    this.http = createHttp({ clock: realClock, random: realRandom })
    this.clients = new HttpClientPool({
      http: this.http,
      clock: realClock,
      random: realRandom,
      log: this.log,
    })
    this.tracker = this.open()
  }

  /** Opens another driver, as after a restart. */
  open(apiKey = this.linear.apiKey): Tracker {
    const clock = { ...realClock, monotonic: () => this.#elapsed }
    const tracker = { ...configDefaults.tracker, driver: 'linear' as const, apiKey, apiUrl: this.linear.url }
    const made = createTracker(
      { ...configDefaults, tracker },
      { clock, log: this.log, clients: this.clients },
    )
    if (made === undefined) throw new Error('no tracker')
    return made
  }

  /** Advances both clocks. */
  pass(ms: number): void {
    this.#elapsed += ms
    this.linear.advance(ms)
  }

  /** Changes the workspace a little later. */
  later<T>(act: (world: FakeLinear['world']) => T): T {
    this.pass(1_000)
    return act(this.linear.world)
  }

  async listTickets(query: Partial<TrackerQuery> = {}): Promise<TrackerListing> {
    this.pass(30_000)
    const polled = await this.tracker.listTickets({ rules: TODO, tickets: [], ...query })
    if (!polled.ok) throw new Error(`${polled.refusal.kind}: ${polled.refusal.message}`)
    for (const { ticket } of polled.value.tickets) {
      const checked = checkTicket(ticket)
      if (!checked.ok) throw new Error(checked.error)
    }
    return polled.value
  }

  link(ticketId: string, link: PullLink): Promise<Result<void>> {
    if (this.tracker.linkPull === undefined) throw new Error('it has a place for links')
    return this.tracker.linkPull(ticketId, link)
  }

  /** Identifiers of eligible tickets by the host's rules. */
  async eligible(rules: EligibleRules = TODO): Promise<string[]> {
    const { tickets } = await this.listTickets({ rules })
    return namesOf(tickets.filter((tracked) => isEligible(tracked, rules)))
  }

  async stop(): Promise<void> {
    this.clients.close()
    await this.http.close()
    await this.linear.stop()
  }
}

export async function linearBench(options: FakeLinearOptions = {}): Promise<LinearBench> {
  const began = Date.UTC(2026, 0, 1)
  return new LinearBench(await startLinear({ now: () => began, ...options }))
}

export const namesOf = (tickets: TrackerListing['tickets']): string[] =>
  tickets.map(({ ticket }) => ticket.identifier).sort()
