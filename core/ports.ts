/**
 * What the lives need from the world, as types only.
 *
 * `store/`, `providers/` and `bin/` satisfy these; `actors/` and `transport/` are handed them. Nothing below `bin/`
 * reads a clock, rolls dice or opens a file of its own accord, so a whole host can run inside one test.
 */
import type { Run, RunEvent, RunStatus } from '../protocol/run.ts'

// ---- time and chance -------------------------------------------------------------------------------------------

export type Cancel = () => void

export interface Clock {
  /** Wall time, milliseconds since 1970. May jump; only for instants that people or records see. */
  now(): number
  /** Milliseconds that never go back; for measuring silence and durations. */
  monotonic(): number
  after(ms: number, run: () => void): Cancel
  /** Once everything that is happening in this turn of the loop has happened. */
  endOfTick(run: () => void): void
}

export interface Chance {
  bytes(count: number): Uint8Array
  /** 0 ≤ x < 1 */
  fraction(): number
}

// ---- log -------------------------------------------------------------------------------------------------------

export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

// ---- memory ----------------------------------------------------------------------------------------------------

/** One life as it is stored: the version of its layout, the code of its state, its plain fields, its deadlines. */
export interface LifeRecord {
  readonly v: number
  readonly s: string
  readonly c: unknown
  /** Instants (wall milliseconds) by name; absent when there are none. Kept here so that none is lost by a restart. */
  readonly d?: Readonly<Record<string, number>>
}

/** One change to the control database. `null` removes. */
export type Write =
  | {
      readonly table: 'life'
      readonly kind: string
      readonly key: string
      readonly record: LifeRecord | null
    }
  | { readonly table: 'run'; readonly id: string; readonly run: Run | null }

/**
 * `ready`: writes go through. `degraded`: the disk is full; commits wait, nothing is acknowledged, and they go
 * through by themselves once there is room. `broken`: a write or sync failed for good; the process must end and
 * recover from what is on disk.
 */
export type StoreState =
  | { readonly is: 'ready' }
  | { readonly is: 'degraded'; readonly reason: string }
  | { readonly is: 'broken'; readonly reason: string }

export interface LifeShelf {
  get(kind: string, key: string): LifeRecord | undefined
  /** In key order. */
  all(kind: string): Iterable<readonly [key: string, record: LifeRecord]>
  kinds(): readonly string[]
}

export interface RunQuery {
  readonly limit?: number
  /** Only runs older than this one (a run id). */
  readonly before?: string
  readonly status?: readonly RunStatus[]
  readonly ticket?: string
}

/** Every run, finished or not. Run ids sort by creation time; lists are newest first. */
export interface RunShelf {
  get(id: string): Run | undefined
  list(query: RunQuery): Run[]
  count(status?: RunStatus): number
}

/** The control database: reads see only what is durable. */
export interface Ledger {
  readonly lives: LifeShelf
  readonly runs: RunShelf
  /**
   * All or nothing, in the order of the calls. Resolves when these writes are on disk; calls within one turn of the
   * loop share one transaction and one sync. Rejects only when the store is broken (or was closed before).
   */
  commit(writes: readonly Write[]): Promise<void>
  state(): StoreState
  onState(listener: (state: StoreState) => void): Cancel
  /** Consistent copy of the database, taken while running. */
  backup(folder: string): Promise<void>
}

export interface EventLogOpened {
  /** Length after any cutting. */
  readonly bytes: number
  /** Index the next event gets. */
  readonly next: number
  /** What was cut from the tail, if anything. */
  readonly cut?: { readonly bytes: number; readonly reason: string }
}

/** The run's events, one JSON object a line. Appends of one run are in call order. */
export interface EventLogs {
  /**
   * Readies a run's log for appending: cuts it back to `knownBytes` when the caller knows how much is acknowledged,
   * else to its last whole line. When anything was cut, one `system` log event saying so is appended.
   */
  open(runId: string, at: string, knownBytes?: number): Promise<EventLogOpened>
  /** Written, not yet synced. Answers the length after it. */
  append(runId: string, events: readonly RunEvent[]): Promise<number>
  sync(runId: string): Promise<void>
  /** Never sees a torn line. `after`: only events with a higher index. */
  read(runId: string, query?: { readonly after?: number; readonly limit?: number }): Promise<RunEvent[]>
  close(runId: string): Promise<void>
  remove(runId: string): Promise<void>
}

export type ArtifactFound =
  | {
      readonly is: 'file'
      readonly size: number
      readonly contentType: string
      readonly download: boolean
      read(): AsyncIterable<Uint8Array>
    }
  | { readonly is: 'escape'; readonly reason: string }
  | { readonly is: 'missing' }

/** A run's artifact folder. No name leads out of it. */
export interface Artifacts {
  /** Parts 0, 1, … of one artifact; the file appears under its name only when the final part is on disk. */
  write(
    runId: string,
    name: string,
    part: number,
    data: Uint8Array,
    final: boolean,
  ): Promise<'kept' | 'repeat' | { readonly refused: string }>
  find(runId: string, name: string): Promise<ArtifactFound>
  names(runId: string): Promise<string[]>
  remove(runId: string): Promise<void>
}

export interface UsageKey {
  readonly projectKey: string
  readonly sessionId: string
  readonly subagentId?: string
}

/** Usage snapshots: one file a session or subagent, replaced whole. */
export interface UsageArchive {
  replace(key: UsageKey, text: string): Promise<void>
  read(key: UsageKey): Promise<string | undefined>
  list(projectKey: string): Promise<UsageKey[]>
}

/** The person's configuration file, as text: what it means is not the store's business. */
export interface ConfigFile {
  readonly path: string
  /** undefined: there is no file yet. */
  read(): Promise<string | undefined>
  /**
   * Puts `text` in place of `expected` atomically, durable when it resolves. When the file holds something else by
   * now (a hand edit nobody has seen yet), nothing is written and the answer carries what it holds.
   */
  replace(
    expected: string | undefined,
    text: string,
  ): Promise<{ readonly is: 'replaced' } | { readonly is: 'changed'; readonly text: string | undefined }>
  /** Keeps a copy of what the file holds beside it, owner-only, before something replaces it. Answers the copy's path. */
  setAside(text: string): Promise<string>
  /** Called (debounced) whenever the file may have changed, for whatever reason. */
  watch(changed: () => void): Cancel
}

export interface Store {
  readonly ledger: Ledger
  readonly events: EventLogs
  readonly artifacts: Artifacts
  readonly usage: UsageArchive
  readonly config: ConfigFile
  /** Flushes what is pending and lets go of everything, in order. */
  close(): Promise<void>
}

// ---- measuring -------------------------------------------------------------------------------------------------

/** Where parts report figures; `/metrics` prints them. Names are `switchyard_…`, labels are few and bounded. */
export interface Meters {
  count(name: MeterName, labels?: Readonly<Record<string, string>>, by?: number): void
  gauge(name: MeterName, value: number, labels?: Readonly<Record<string, string>>): void
  observe(name: MeterName, seconds: number): void
}

export type MeterName =
  | 'store_commit_seconds'
  | 'store_commit_writes_total'
  | 'store_state'
  | 'actors'
  | 'actor_crashes_total'
  | 'actor_transitions_total'
  | 'sockets'
  | 'sockets_cut_off_total'
  | 'http_requests_total'
  | 'settings_changes_total'
