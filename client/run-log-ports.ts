/** The two sides of a window on the events of a run: where it reads them, and who shows them. */
import type { DashboardFrame } from '../protocol/dashboard.ts'
import type { RunEvent } from '../protocol/run.ts'
import type { EventRange } from './run-events.ts'

export interface RunLogSource {
  readEvents(range: EventRange, signal: AbortSignal): AsyncIterable<RunEvent>
  /** Subscribes to the events of the run until the returned function is called. Each subscription is confirmed. */
  watch(onFrame: (frame: DashboardFrame) => void): () => void
  /** Events with a lower index belong to nobody; the source does not tell them. */
  readonly first?: number
}

export interface RunLogListener {
  /**
   * Events without a hole towards those delivered before, which are older or newer than them.
   *
   * @param range the indexes that were asked for; one that no event has, the host has lost
   * @returns a promise for older events that are taken over bit by bit
   */
  onEvents(events: readonly RunEvent[], end: 'older' | 'newer', range: IndexRange): void | Promise<void>
  /** So much is missing that the window begins again at the end of the log. */
  onReset(): void
  onState(state: RunLogState): void
}

/** Indexes from `from` up to and without `to`. */
export type IndexRange = { readonly from: number; readonly to: number }

export interface RunLogState {
  /** Whether the end of the log was read. */
  readonly isRead: boolean
  readonly isReadingOlder: boolean
  /** Older events that are not in the window. */
  readonly older: number
  /** Why reading fails; it is tried again. */
  readonly failure: string | undefined
}
