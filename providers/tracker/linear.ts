/**
 * Linear as a tracker: its issues are the tickets, its workflow states the states.
 *
 * It promises that looking is cheap however often it is done, and that no problem with one issue hides another. What it
 * does not know it does not guess: whether a ticket is eligible is for the host to say, of what is shown here.
 */
import type { Cancel, Clock, Log, PullLink, Tracker, TrackerListing, TrackerQuery } from '../../core/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { TrackerProject } from '../../protocol/tracker.ts'
import type { RateLimitedClient } from '../http/client-types.ts'
import { LinearDesk } from './linear/client.ts'
import type { LinearPlace } from './linear/endpoint.ts'
import { LinearMoves } from './linear/mutations.ts'
import { LinearLooks } from './linear/poller.ts'
import { linearProjects } from './linear/projects.ts'
import { IssueReader } from './linear/reader.ts'

export interface LinearTrackerParts {
  readonly courier: RateLimitedClient
  readonly clock: Pick<Clock, 'monotonic'>
  readonly log: Log
  readonly place: LinearPlace
  /** A personal key, or an app's token. */
  readonly credential: string
}

/** Other people's machines need not be able to open it. */
const WEB_ADDRESS = /^https?:\/\/[^\s]+$/

export function linearTracker(parts: LinearTrackerParts): Tracker {
  return new LinearTracker(parts)
}

class LinearTracker implements Tracker {
  readonly #desk: LinearDesk
  readonly #looks: LinearLooks
  readonly #moves: LinearMoves
  readonly #log: Log
  #lastLook: Promise<unknown> = Promise.resolve()
  /** What the log has been told and is still so. */
  #told: ReadonlySet<string> = new Set()

  constructor({ courier, clock, log, place, credential }: LinearTrackerParts) {
    this.#desk = new LinearDesk({ courier, graphqlUrl: place.graphqlUrl, credential })
    this.#looks = new LinearLooks(new IssueReader(this.#desk), clock)
    this.#moves = new LinearMoves(this.#desk, clock)
    this.#log = log
  }

  /** One after the other: what one has found, the next needs not ask for. */
  listTickets(wish: TrackerQuery): Promise<Result<TrackerListing>> {
    const look = this.#lastLook.then(() => this.#look(wish))
    this.#lastLook = look.catch(() => undefined)
    return look
  }

  /** It could only tell a service that can be reached from outside. */
  watch(_changed: () => void): Cancel {
    return () => {}
  }

  async moveTicket(ticketId: string, state: string, from?: readonly string[]): Promise<Result<void>> {
    const moved = await this.#moves.move(ticketId, state, from)
    if (!moved.ok) return moved
    this.#looks.moved(moved.value.id, moved.value.state, moved.value.closed)
    return yes(undefined)
  }

  async linkPull(ticketId: string, { url, title }: PullLink): Promise<Result<void>> {
    // A file on this machine is no link for anybody else.
    return WEB_ADDRESS.test(url) ? this.#moves.attach(ticketId, url, title) : yes(undefined)
  }

  projects(): Promise<Result<readonly TrackerProject[]>> {
    return linearProjects(this.#desk)
  }

  async #look(wish: TrackerQuery): Promise<Result<TrackerListing>> {
    const looked = await this.#looks.look(wish)
    if (looked.ok) this.#tell(looked.value.problems)
    return looked
  }

  #tell(problems: readonly string[]): void {
    for (const problem of problems.filter((one) => !this.#told.has(one))) this.#log.warn({}, problem)
    this.#told = new Set(problems)
  }
}
