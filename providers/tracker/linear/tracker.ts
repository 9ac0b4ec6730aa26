/**
 * Tracker for Linear: issues are tickets, workflow states are states.
 *
 * Polling stays cheap at any frequency, and a problem with one issue affects no other. The host alone decides which
 * tickets are eligible.
 */
import { KeyedQueue } from '../../../core/keyed-queue.ts'
import type { Cancel, Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import type {
  NewTicket,
  PullLink,
  TicketComment,
  TrackedTicket,
  Tracker,
  TrackerListing,
  TrackerQuery,
} from '../../../core/ports/tracker.ts'
import { type Result, yes } from '../../../core/result.ts'
import type { TrackerProject } from '../../../protocol/tracker.ts'
import type { RateLimitedClient } from '../../http/client-types.ts'
import { LinearClient } from './client.ts'
import { LinearIssueCreator, listLinearProjects } from './create-issue.ts'
import { LinearMutations } from './mutations.ts'
import { LinearPoller } from './poller.ts'
import type { LinearEndpoint } from './rate-limits.ts'
import { IssueReader } from './reader.ts'

export interface LinearTrackerOptions {
  readonly httpClient: RateLimitedClient
  readonly clock: Pick<Clock, 'monotonic'>
  readonly log: Log
  readonly endpoint: LinearEndpoint
  /** A personal API key, or the token of an OAuth app. */
  readonly credential: string
}

/** Any http address may be linked, even if other people cannot open it. */
const WEB_URL = /^https?:\/\/[^\s]+$/

export function createLinearTracker(options: LinearTrackerOptions): Tracker {
  return new LinearTracker(options)
}

class LinearTracker implements Tracker {
  readonly #client: LinearClient
  readonly #poller: LinearPoller
  readonly #mutations: LinearMutations
  readonly #creator: LinearIssueCreator
  readonly #log: Log
  readonly #polls = new KeyedQueue()
  /** Problems that were logged and still exist. */
  #reportedProblems: ReadonlySet<string> = new Set()

  constructor({ httpClient, clock, log, endpoint, credential }: LinearTrackerOptions) {
    this.#client = new LinearClient({ httpClient, graphqlUrl: endpoint.graphqlUrl, credential })
    this.#poller = new LinearPoller(new IssueReader(this.#client), clock)
    this.#mutations = new LinearMutations(this.#client, clock)
    this.#creator = new LinearIssueCreator(this.#client, this.#mutations)
    this.#log = log
  }

  /** Serialized, so that a poll profits from the result of the one before. */
  listTickets(query: TrackerQuery): Promise<Result<TrackerListing>> {
    return this.#polls.run('poll', () => this.#poll(query))
  }

  /** Linear's webhooks need an address that is reachable from the internet. */
  watch(_onChange: () => void): Cancel {
    return () => {}
  }

  async moveTicket(ticketId: string, state: string, from?: readonly string[]): Promise<Result<void>> {
    const moved = await this.#mutations.move(ticketId, state, from)
    if (!moved.ok) return moved
    this.#poller.applyMove(moved.value.id, moved.value.state, moved.value.closed)
    return yes(undefined)
  }

  async createTicket(ticket: NewTicket): Promise<Result<TrackedTicket>> {
    const created = await this.#creator.create(ticket)
    return created.ok ? yes(created.value.tracked) : created
  }

  async linkPull(ticketId: string, { url, title }: PullLink): Promise<Result<void>> {
    // Other people cannot open a file of this machine.
    return WEB_URL.test(url) ? this.#mutations.attach(ticketId, url, title) : yes(undefined)
  }

  comment(ticketId: string, comment: TicketComment): Promise<Result<void>> {
    return this.#mutations.comment(ticketId, comment)
  }

  projects(): Promise<Result<readonly TrackerProject[]>> {
    return listLinearProjects(this.#client)
  }

  async #poll(query: TrackerQuery): Promise<Result<TrackerListing>> {
    const polled = await this.#poller.poll(query)
    if (polled.ok) this.#reportProblems(polled.value.problems)
    return polled
  }

  #reportProblems(problems: readonly string[]): void {
    const unreported = problems.filter((problem) => !this.#reportedProblems.has(problem))
    for (const problem of unreported) this.#log.warn({}, problem)
    this.#reportedProblems = new Set(problems)
  }
}
