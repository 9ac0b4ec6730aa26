/**
 * The events of a run: those of a page, all of them while they arrive, and those to come until the run has ended.
 *
 * Following combines pages and pushes by the events' indexes: an index that was delivered is skipped, and a missing one
 * is asked for. So nothing is lost or repeated, whatever the connection does. What a page lacks, the host's disk lost.
 */
import type { DashboardFrame } from '../protocol/dashboard.ts'
import type { QueryOf } from '../protocol/routes.ts'
import type { Run, RunEvent } from '../protocol/run.ts'
import { createClient, fillPath } from './client.ts'
import type { ClientConnection } from './connection.ts'
import { DashboardFeed } from './dashboard-feed.ts'
import { HostRefusal, HostUnreachable, reasonOf } from './errors.ts'
import { openReply } from './host-request.ts'
import { readJsonArray } from './json-array.ts'
import { REQUEST_LINES } from './request-lines.ts'

const [METHOD = '', PATH = ''] = REQUEST_LINES.readRunEvents.split(' ')
/** Pushed events that wait for a slow reader, of up to 256 KiB each; more are dropped, and asked for later. */
const WAITING_EVENTS_MAX = 1_000
const RETRY_MS = 500

/** All events, those after an index, those before one, or the last. */
export type EventRange = QueryOf<'readRunEvents'>

/** The events so far, one by one as they arrive, however many they are. */
export async function* readEvents(
  connection: ClientConnection,
  runId: string,
  range: EventRange = {},
  signal?: AbortSignal,
): AsyncGenerator<RunEvent> {
  const path = fillPath(PATH, { id: runId, ...range })
  const options = signal === undefined ? {} : { signal }
  const { at, reply } = await openReply(connection, { method: METHOD, path }, options)
  try {
    for await (const event of readJsonArray(reply.body)) {
      if (connection.isAnswer?.('readRunEvents', [event]) === false)
        throw new Error('the answer is in a form that a host does not use')
      // The host checks what it sends.
      yield event as RunEvent
    }
  } catch (error) {
    const isOfRequest = error instanceof HostUnreachable || signal?.aborted === true
    throw isOfRequest ? error : new HostUnreachable(at, reasonOf(error))
  }
}

export interface FollowOptions {
  /** Only events with a higher index. */
  readonly after?: number
  readonly signal?: AbortSignal
  readonly onLost?: (reason: string) => void
  readonly onBack?: () => void
}

/** The agent is done, and the host has its work published before it asks the agent again. */
export const hasUnpublishedWork = ({ sandbox, status }: Run): boolean =>
  sandbox.unpublished === true && sandbox.id !== undefined && status !== 'completed'

const TERMINAL: readonly Run['status'][] = ['completed', 'failed', 'cancelled']
export const hasEnded = ({ status }: Pick<Run, 'status'>): boolean => TERMINAL.includes(status)

/** All events from the first one on, until the run has ended. Returns the run as it ended. */
export async function* followRun(
  connection: ClientConnection,
  runId: string,
  options: FollowOptions = {},
): AsyncGenerator<RunEvent, Run> {
  const follower = new RunFollower(connection, runId, options)
  try {
    return yield* follower.events()
  } finally {
    follower.close()
  }
}

class RunFollower {
  readonly #connection: ClientConnection
  readonly #runId: string
  readonly #options: FollowOptions
  readonly #feed: DashboardFeed
  #next: number
  #waiting: RunEvent[] = []
  /** Events may be missing before those that wait. */
  #mustRead = false
  /** The run as it ended. */
  #ended: Run | undefined
  #failure: unknown
  #wasLost = false
  #wake: () => void = () => {}
  readonly #onAbort = () => this.#fail(this.#options.signal?.reason)

  constructor(connection: ClientConnection, runId: string, options: FollowOptions) {
    this.#connection = connection
    this.#runId = runId
    this.#options = options
    this.#next = (options.after ?? -1) + 1
    this.#feed = new DashboardFeed(connection, {
      onFrame: (frame) => this.#onFrame(frame),
      onLost: (reason) => this.#onLost(reason),
      onLive: () => this.#onLive(),
      onEnd: (error) => this.#fail(error),
    })
    this.#feed.subscribe(runId)
    options.signal?.addEventListener('abort', this.#onAbort)
    // A signal that has aborted before fires no event.
    if (options.signal?.aborted === true) this.#onAbort()
  }

  close(): void {
    this.#options.signal?.removeEventListener('abort', this.#onAbort)
    this.#feed.close()
  }

  async *events(): AsyncGenerator<RunEvent, Run> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure
      if (this.#mustRead) yield* this.#readMissing()
      else {
        const event = this.#waiting.shift()
        if (event === undefined) {
          if (this.#ended !== undefined) return this.#ended
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
        } else if (event.index > this.#next) this.#mustRead = true
        else if (event.index === this.#next) yield this.#deliver(event)
      }
    }
  }

  async *#readMissing(): AsyncGenerator<RunEvent> {
    const { signal } = this.#options
    this.#mustRead = false
    try {
      // The state is read first: all events of a run that has ended are there to be read.
      const run = await createClient(this.#connection).readRun(
        { id: this.#runId },
        signal === undefined ? {} : { signal },
      )
      const range = this.#next === 0 ? {} : { after: this.#next - 1 }
      for await (const event of readEvents(this.#connection, this.#runId, range, signal))
        if (event.index >= this.#next) yield this.#deliver(event)
      if (hasEnded(run)) this.#ended ??= run
    } catch (error) {
      if (this.#failure !== undefined) throw this.#failure
      if (error instanceof HostRefusal && error.isLasting) throw error
      // The host is away; a new connection asks at once, and otherwise the pause does.
      this.#mustRead = true
      let timer: ReturnType<typeof setTimeout> | undefined
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        timer = setTimeout(resolve, RETRY_MS)
      })
      clearTimeout(timer)
    }
  }

  #deliver(event: RunEvent): RunEvent {
    this.#next = event.index + 1
    return event
  }

  #onFrame(frame: DashboardFrame): void {
    // Events before this moment may be missing, and all later ones are pushed.
    if (frame.type === 'subscribed' && frame.runId === this.#runId) this.#mustRead ||= frame.next > this.#next
    else if (frame.type === 'run-event' && frame.event.runId === this.#runId) this.#keep(frame.event)
    else if (frame.type === 'run-updated' && frame.run.id === this.#runId && hasEnded(frame.run)) {
      this.#ended = frame.run
      this.#mustRead = true
    } else return
    this.#wake()
  }

  #keep(event: RunEvent): void {
    this.#waiting.push(event)
    if (this.#waiting.length <= WAITING_EVENTS_MAX) return
    this.#waiting = []
    this.#mustRead = true
  }

  #onLive(): void {
    this.#mustRead = true
    if (this.#wasLost) this.#options.onBack?.()
    this.#wasLost = false
    this.#wake()
  }

  #onLost(reason: string): void {
    this.#wasLost = true
    this.#options.onLost?.(reason)
  }

  #fail(error: unknown): void {
    this.#failure ??= error ?? new Error('stopped')
    this.#wake()
  }
}
