/**
 * BoardFeed keeps the records of the board up to date: the dashboard socket sends changes, and requests read what a hello
 * does not have.
 *
 * A request that fails is repeated with the next hello; the first line of the board says that the host is away.
 */

import { DashboardFeed } from '../../../client/dashboard-feed.ts'
import { reasonOf } from '../../../client/errors.ts'
import { readFinishedSince } from '../../../client/read-finished-since.ts'
import { hasEnded } from '../../../client/run-events.ts'
import type { DashboardFrame } from '../../../protocol/dashboard.ts'
import type { Run } from '../../../protocol/run.ts'
import { lastMidnight } from '../../output/times.ts'
import type { CommandContext } from '../command/run-command.ts'
import { readSpentToday } from '../costs/spent.ts'
import { BoardRecords } from './board-records.ts'
import type { FeedState } from './layout.ts'

export interface BoardFeedListener {
  onChange(): void
  /** The feed has ended by itself: no host at first, or a lasting refusal. */
  onEnd(error: Error): void
}

/** A longer silence is no restart of a host any more. */
const STALE_MS = 30_000
/** Among so many events there is nearly always a line. */
const LAST_EVENTS = 20
const LOG_EVENTS = 200
/** The newest line of more runs arrives with their next event. */
const READ_RUNS_MAX = 200
const REQUESTS_AT_ONCE = 4
/** Moving through the rows reads no log on the way, and a flood of events with gaps reads it seldom. */
const LOG_PAUSE_MS = 200
/** Runs report their costs often. */
const SPENT_PAUSE_MS = 1_000

export class BoardFeed {
  readonly records = new BoardRecords()
  readonly #context: Pick<CommandContext, 'connection' | 'client' | 'present'>
  readonly #listener: BoardFeedListener
  readonly #feed: DashboardFeed
  readonly #end = new AbortController()
  readonly #askedRuns = new Set<string>()
  #lostAt: number | undefined
  #logTimer: ReturnType<typeof setTimeout> | undefined
  #finished: { readonly since: number; readonly runs: readonly Run[] } | undefined
  #spentTimer: ReturnType<typeof setTimeout> | undefined

  constructor(
    context: Pick<CommandContext, 'connection' | 'client' | 'present'>,
    listener: BoardFeedListener,
  ) {
    this.#context = context
    this.#listener = listener
    this.#feed = new DashboardFeed(context.connection, {
      onFrame: (frame) => this.#onFrame(frame),
      onLost: () => {
        this.#lostAt ??= context.present().now
        listener.onChange()
      },
      onEnd: (error) => listener.onEnd(error),
    })
  }

  /** The first hello has arrived. */
  get hasHello(): boolean {
    return this.records.config !== undefined
  }

  get state(): FeedState {
    if (this.#lostAt === undefined) return { is: 'live' }
    const isStale = this.#context.present().now - this.#lostAt >= STALE_MS
    return isStale ? { is: 'stale', since: this.#lostAt } : { is: 'reconnecting' }
  }

  /** Reads the selected run's newest events when some are missing. */
  completeLog(): void {
    if (!this.records.isLogIncomplete || this.#logTimer !== undefined) return
    this.#logTimer = setTimeout(() => {
      const { logRun } = this.records
      void (logRun === undefined ? Promise.resolve() : this.#readLog(logRun)).finally(() => {
        this.#logTimer = undefined
      })
    }, LOG_PAUSE_MS)
  }

  close(): void {
    clearTimeout(this.#logTimer)
    clearTimeout(this.#spentTimer)
    this.#end.abort(new Error('the board is closed'))
    this.#feed.close()
  }

  #onFrame(frame: DashboardFrame): void {
    if (this.#changesCosts(frame)) this.#readSpentSoon()
    this.records.applyFrame(frame)
    if (frame.type === 'hello') {
      this.#lostAt = undefined
      this.#askedRuns.clear()
      this.#quietly(this.#readVersion())
      this.#quietly(this.#readNewestLines())
      this.#quietly(this.#readSpent())
    }
    if (frame.type === 'attention' || frame.type === 'hello') this.#quietly(this.#readUnknownRuns())
    this.#listener.onChange()
  }

  #changesCosts(frame: DashboardFrame): boolean {
    if (this.records.spent?.since !== lastMidnight(this.#context.present())) return true
    if (frame.type !== 'run-updated') return false
    const { id, costTotals } = frame.run
    return costTotals?.costUsd !== this.records.runs.get(id)?.costTotals?.costUsd
  }

  #readSpentSoon(): void {
    this.#spentTimer ??= setTimeout(() => {
      this.#spentTimer = undefined
      this.#quietly(this.#readSpent())
    }, SPENT_PAUSE_MS)
  }

  async #readSpent(): Promise<void> {
    const since = lastMidnight(this.#context.present())
    const runs = new Map((await this.#readFinished(since)).map((run) => [run.id, run]))
    for (const [id, run] of this.records.runs) runs.set(id, run)
    const text = await readSpentToday(this.#context, [...runs.values()])
    this.records.spent = { since, text }
  }

  /** The board's records begin with the newest runs alone, and a day may have more. They are read once a day. */
  async #readFinished(since: number): Promise<readonly Run[]> {
    if (this.#finished?.since !== since) {
      const runs: Run[] = []
      await readFinishedSince(this.#context.client, since, (page) => runs.push(...page))
      this.#finished = { since, runs }
    }
    return this.#finished.runs
  }

  #quietly(request: Promise<void>): void {
    request.then(
      () => this.#end.signal.aborted || this.#listener.onChange(),
      () => {},
    )
  }

  async #readVersion(): Promise<void> {
    const { version } = await this.#context.client.health({}, this.#options)
    this.records.hostVersion = version
  }

  async #readNewestLines(): Promise<void> {
    const { records } = this
    const active = [...records.runs.values()].filter((run) => !hasEnded(run) && run.status !== 'queued')
    const ids = active.slice(0, READ_RUNS_MAX).map(({ id }) => id)
    const readSome = async () => {
      for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
        const asked = { id, tail: LAST_EVENTS }
        records.addEvents(await this.#context.client.readRunEvents(asked, this.#options))
        this.#listener.onChange()
      }
    }
    await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, readSome))
  }

  async #readUnknownRuns(): Promise<void> {
    for (const id of this.records.unknownRuns()) {
      if (this.#askedRuns.has(id)) continue
      this.#askedRuns.add(id)
      this.records.addRun(await this.#context.client.readRun({ id }, this.#options))
    }
  }

  /** A run without its log is still on the board, so the reason stands where the log would. */
  async #readLog(runId: string): Promise<void> {
    try {
      const asked = { id: runId, tail: LOG_EVENTS }
      this.records.setLog(runId, await this.#context.client.readRunEvents(asked, this.#options))
    } catch (error) {
      if (!this.#end.signal.aborted) this.records.failLog(runId, reasonOf(error))
    }
    if (!this.#end.signal.aborted) this.#listener.onChange()
  }

  get #options(): { readonly signal: AbortSignal } {
    return { signal: this.#end.signal }
  }
}
