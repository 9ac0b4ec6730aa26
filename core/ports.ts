/**
 * What the lives need from the world, as types only.
 *
 * `store/`, `providers/` and `bin/` satisfy these; `actors/` and `transport/` are handed them. Nothing below `bin/`
 * reads a clock, rolls dice or opens a file of its own accord, so a whole host can run inside one test.
 */
import type { ServiceConfig } from '../protocol/config.ts'
import type { Run, RunEvent, RunStatus, Ticket } from '../protocol/run.ts'
import type { TrackerProject } from '../protocol/tracker.ts'
import type { Result } from './result.ts'

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

export interface RandomSource {
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
export interface ActorSnapshot {
  readonly v: number
  readonly s: string
  readonly c: unknown
  /** Instants (wall milliseconds) by name; absent when there are none. Kept here so that none is lost by a restart. */
  readonly d?: Readonly<Record<string, number>>
}

/** One change to the control database. `null` removes. */
export type Write =
  | {
      readonly table: 'snapshot'
      readonly kind: string
      readonly key: string
      readonly record: ActorSnapshot | null
    }
  | { readonly table: 'run'; readonly id: string; readonly run: Run | null }
  /**
   * The next events of a run: `count` of them, from index `first` on, as JSON lines, each ended by a newline. `first`
   * is what `EventLogs.next` answers, plus what was written before in commits still on their way.
   */
  | {
      readonly table: 'events'
      readonly runId: string
      readonly first: number
      readonly count: number
      readonly lines: string
    }
  /** A small plain value that is nobody's life: what outlives the lives it was learnt from. */
  | {
      readonly table: 'key-value'
      readonly collection: KeyValueCollection
      readonly key: string
      readonly value: object | null
    }

/**
 * `ended-lease`: how a lease ended, by its id, for frames that come late. `mark`: how far a live lease's frames are
 * applied, by its id. `memory`: what runs learnt, by repository. `ticket`: since when a ticket is in its state.
 * `errand`: what a worker that was away is to be told, by worker and run. On a worker's disk, `frame`: what waits for
 * the host's word, by lease and number; `outbox`: how far a lease's frames are acknowledged, by its id. `session`: what
 * is known of the costs of a session that a person went on with, by the session's id. `told`: which remarks on its pull
 * request follow-ups of a run were told, by the run's id.
 */
export type KeyValueCollection =
  | 'ended-lease'
  | 'mark'
  | 'memory'
  | 'ticket'
  | 'errand'
  | 'frame'
  | 'outbox'
  | 'session'
  | 'told'

/**
 * `ready`: writes go through. `degraded`: the disk is full; commits wait, nothing is acknowledged, and they go
 * through by themselves once there is room. `broken`: a write or sync failed for good; the process must end and
 * recover from what is on disk.
 */
export type StoreState =
  | { readonly is: 'ready' }
  | { readonly is: 'degraded'; readonly reason: string }
  | { readonly is: 'broken'; readonly reason: string }

export interface Snapshots {
  get(kind: string, key: string): ActorSnapshot | undefined
  /** In key order. */
  all(kind: string): Iterable<readonly [key: string, record: ActorSnapshot]>
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
export interface RunRecords {
  get(id: string): Run | undefined
  list(query: RunQuery): Run[]
  count(status?: RunStatus): number
}

export interface KeyValues {
  get(collection: KeyValueCollection, key: string): object | undefined
  /** In key order; `after` and `until` bound the keys, both exclusive. */
  all(
    collection: KeyValueCollection,
    between?: { readonly after?: string; readonly until?: string },
  ): Iterable<readonly [key: string, value: object]>
}

/** The control database: reads see only what is durable. */
export interface ControlDatabase {
  readonly snapshots: Snapshots
  readonly runs: RunRecords
  readonly keyValues: KeyValues
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

/**
 * The run's events, one JSON object a line. They become durable with the commit that holds them (`table: 'events'`)
 * and are moved to the run's own file behind everybody's back; readers see one log, in order and without holes.
 */
export interface EventLogs {
  /** Index the next event gets, as far as commits have landed. Quick: asks no file. */
  nextIndex(runId: string): number
  /** Only what is durable. `after`: only events with a higher index. */
  read(runId: string, query?: { readonly after?: number; readonly limit?: number }): Promise<RunEvent[]>
  remove(runId: string): Promise<void>
}

export type ArtifactLookup =
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
  find(runId: string, name: string): Promise<ArtifactLookup>
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
  saveCopy(text: string): Promise<string>
  /** Called (debounced) whenever the file may have changed, for whatever reason. */
  watch(onChange: () => void): Cancel
}

export interface Store {
  readonly database: ControlDatabase
  readonly events: EventLogs
  readonly artifacts: Artifacts
  readonly usage: UsageArchive
  readonly config: ConfigFile
  /** Flushes what is pending and lets go of everything, in order. */
  close(): Promise<void>
}

// ---- neighbours -------------------------------------------------------------------------------------------------

/** A ticket as its tracker has it. */
export interface TrackedTicket {
  readonly ticket: Ticket
  /** Done or given up: it holds nothing up that waits for it. */
  readonly closed: boolean
  /** By what else than the ticket shows a rule may name its assignee and its project: an e-mail address, an id. */
  readonly aliases?: { readonly assignee: readonly string[]; readonly project: readonly string[] }
}

export interface TrackerListing {
  readonly tickets: readonly TrackedTicket[]
  /** What could not be read, one sentence each; the other tickets are right all the same. */
  readonly problems: readonly string[]
}

/** What a look at a tracker is to answer. */
export interface TrackerQuery {
  readonly rules: ServiceConfig['tracker']['eligible']
  /** Tickets that are cared about whatever has become of them (ids): those with a run that is not at rest. */
  readonly tickets: readonly string[]
}

export interface PullLink {
  readonly url: string
  readonly title: string
}

/** One tracker, as configured right now. */
export interface Tracker {
  /**
   * Everything it has that could be or become eligible, and what was asked for besides. Refused: `unauthorized` when
   * it does not take our credential, all else passes.
   */
  listTickets(query: TrackerQuery): Promise<Result<TrackerListing>>
  /** Called (debounced) whenever something may have changed; not every tracker can tell. */
  watch(onChange: () => void): Cancel
  /**
   * `from`: found elsewhere than in these states, somebody has put it there; it stays, and that is refused for good.
   * Without it, one that is closed stays closed.
   */
  moveTicket(ticketId: string, state: string, from?: readonly string[]): Promise<Result<void>>
  /** Twice is once. Absent where a ticket has no place for links. */
  linkPull?(ticketId: string, link: PullLink): Promise<Result<void>>
  /** For choosing which tickets are eligible. */
  projects(): Promise<Result<readonly TrackerProject[]>>
}

/** A pull request as its code host has it, as far as a run needs to know. */
export interface OpenPullRequest {
  readonly number: number
  readonly url: string
  readonly state: 'open' | 'draft'
}

export interface NewPullRequest {
  /** owner/name */
  readonly remote: string
  readonly head: string
  readonly base: string
  readonly title: string
  /** Ends with the marker, in a comment that people don't see. */
  readonly body: string
  readonly draft: boolean
}

/** Where a run's work is published. A driver holds its own credential; nothing it answers carries it. */
export interface CodeHost {
  /** What git clones from, fetches from and pushes to; without a credential in it. */
  gitAddress(remote: string): string
  /** The one open pull request of this head branch, whoever opened it. */
  findPull(remote: string, head: string, base: string): Promise<Result<OpenPullRequest | undefined>>
  openPull(request: NewPullRequest): Promise<Result<OpenPullRequest>>
  /** Whether a comment in the pull request's conversation holds this text. */
  hasComment(remote: string, number: number, text: string): Promise<Result<boolean>>
  comment(remote: string, number: number, body: string): Promise<Result<void>>
  /**
   * Of the comments that end with this text the first stays; those of the same author after it are taken away. Answers
   * how many.
   */
  dropRepeats(remote: string, number: number, text: string): Promise<Result<number>>
}

// ---- the worker on this machine ----------------------------------------------------------------------------------

export interface LocalWorkerOptions {
  readonly concurrency: number
  /** Its credential is good for nothing any more. */
  readonly enrollAgain: boolean
  /** A pairing token, asked for when it has no credential. */
  readonly createPairingToken: () => string
}

export interface LocalWorkerExit {
  /** Absent when a signal ended it. */
  readonly code?: number
  readonly signal?: string
}

/** It also ends by itself, at once, when this process is gone. */
export interface LocalWorkerProcess {
  /** Takes no more runs, and ends when those it has are done. */
  drain(): void
  /** Ends now, its runs with it; what is finished stays on its disk and is told next time. */
  stop(): void
  kill(): void
  /** Never rejects. */
  readonly ended: Promise<LocalWorkerExit>
}

/** Starts worker daemons on this machine, each in a process of its own; one at a time. */
export interface LocalWorkerLauncher {
  start(options: LocalWorkerOptions): Promise<Result<LocalWorkerProcess>>
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
  | 'queue_depth'
  | 'queue_wait_seconds'
  | 'dispatches_total'
  | 'leases_ended_total'
  | 'leases'
  | 'frames_total'
  | 'frames_lost_total'
  | 'watermark_lag_frames'
  | 'invariant_violations_total'
  | 'workers_connected'
  | 'worker_registrations_total'
