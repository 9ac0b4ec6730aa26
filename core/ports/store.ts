/**
 * The ports of everything that is on disk: the control database, event logs, artifacts, usage, the configuration.
 *
 * `store/` implements them, and no other code opens a file of the data directory. Reads return durable data only.
 */
import type { AuditAction } from '../../protocol/audit.ts'
import type { Run, RunStatus } from '../../protocol/run.ts'
import type { KnownDamage } from '../damage.ts'
import type { CredentialRecords } from '../settings/credential-origins.ts'
import type { Cancel } from './clock.ts'

/**
 * The stored state of one actor: the version of its layout, the code of its state, its plain fields and its
 * deadlines.
 */
export interface ActorSnapshot {
  readonly v: number
  readonly s: string
  readonly c: unknown
  /** Deadlines by name, as wall milliseconds; absent when there are none. A stored deadline survives a restart. */
  readonly d?: Readonly<Record<string, number>>
}

/**
 * A change to the control database. `null` removes the entry. A snapshot of kind `run` belongs to the unfinished run of
 * its key: it is written with the run or after it, and removed before the run ends or with the commit in which it ends.
 */
export type Write =
  | {
      readonly table: 'snapshot'
      readonly kind: string
      readonly key: string
      readonly record: ActorSnapshot | null
    }
  | { readonly table: 'run'; readonly id: string; readonly run: Run | null }
  /**
   * The next `count` events of a run, starting at index `first`, as the UTF-8 of JSON lines that each end in a newline;
   * these bytes must not change afterwards. `first` is the value of `EventLogs.nextIndex` plus the events written in
   * commits that are not on disk yet.
   */
  | {
      readonly table: 'events'
      readonly runId: string
      readonly first: number
      readonly count: number
      readonly lines: Uint8Array
    }
  /** A small plain value that belongs to no actor and outlives the actors that produced it. */
  | {
      readonly table: 'key-value'
      readonly collection: KeyValueCollection
      readonly key: string
      readonly value: object | null
    }

/**
 * The collections of the key-value store.
 *
 * On the host: `ended-lease`: how a lease ended, by lease id, for frames that arrive late. `settled-lease`: the
 * costs of an ended lease are in its run, by lease id. `mark`: the watermark of a
 * live lease, by lease id. `memory`: the facts that runs recorded, by repository. `ticket`: since when a ticket is in
 * its state. `errand`: discards that an absent worker has not received yet, by worker and run. `session`: known costs
 * of a session that a person resumed, by session id. `told`: the pull request remarks that follow-ups of a run
 * received, by run id. `day-costs`: what runs cost on a local day, by the day. `join-key`: the keys that machines join
 * with, as hashes, by the key's id. `clock`: the last readings of the wall clock. `trouble`: what needs a person, by
 * kind and subject.
 *
 * On a worker: `frame`: frames that the host has not acknowledged, by lease and number. `outbox`: the highest
 * acknowledged frame of a lease, by lease id. `settlement`: the costs of executions whose lease ended before the host
 * had them, by lease id.
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
  | 'settlement'
  | 'settled-lease'
  | 'day-costs'
  | 'join-key'
  | 'clock'
  | 'trouble'

/**
 * `ready`: writes succeed. `degraded`: the disk is full for commits or for files beside the database; commits that find
 * no space wait, unacknowledged, and succeed by themselves once the disk has space. `broken`: a write or sync failed
 * for good; the process must end and recover from the data on disk. `takenOver`: another process owns the data
 * directory now, so this one must neither write nor send anything more.
 */
export type StoreState =
  | { readonly is: 'ready' }
  | { readonly is: 'degraded'; readonly reason: string }
  | {
      readonly is: 'broken'
      readonly reason: string
      readonly rescue?: RescueCopy
      readonly takenOver?: true
    }

/** The copy that saves the content of a database whose file was removed or replaced while it was open. */
export interface RescueCopy {
  readonly bytes: number
  /** Resolves at the end of the copy, to the part of a sentence that says whether and where the content is saved. */
  readonly ended: Promise<string>
}

/** A snapshot that cannot be read, with the reason. */
export interface DamagedSnapshot {
  readonly damaged: string
}

/** Look-ups throw DamagedRecord (`core/damage.ts`) for what is damaged. */
export interface Snapshots {
  /** Returns the snapshot of one actor, or undefined when there is none. */
  get(kind: string, key: string): ActorSnapshot | undefined
  /** Lists the snapshots of a kind in key order. */
  all(kind: string): Iterable<readonly [key: string, record: ActorSnapshot | DamagedSnapshot]>
  /** Lists the actor kinds that have ever been stored. */
  kinds(): readonly string[]
}

export interface RunQuery {
  readonly limit?: number
  /** Only runs older than this run id. */
  readonly before?: string
  readonly status?: readonly RunStatus[]
  readonly ticket?: string
}

/** Every run, finished or not. Run ids sort by creation time. */
export interface RunRecords {
  /** Returns one run, or undefined when there is none. Throws DamagedRecord. */
  get(id: string): Run | undefined
  /** Lists the runs that match the query, newest first, without damaged ones. */
  list(query: RunQuery): Run[]
  /** The runs of this ticket with damaged records, as far as damage is known: listing its runs finds all of them. */
  damagedOf(ticket: string): readonly string[]
  /** Counts all runs, or those with the given status. */
  count(status?: RunStatus): number
}

/** Both bounds are exclusive. */
export interface KeysBetween {
  readonly after?: string
  readonly until?: string
}

export interface KeyValues {
  /** Returns one value, or undefined when there is none. Throws DamagedRecord. */
  get(collection: KeyValueCollection, key: string): object | undefined
  /** Lists a collection in key order, without damaged values. */
  all(collection: KeyValueCollection, between?: KeysBetween): Iterable<readonly [key: string, value: object]>
}

export interface KeyList {
  /** Lists the keys of a collection in order, those of damaged values too. */
  keys(collection: KeyValueCollection, between?: KeysBetween): Iterable<string>
}

/** The control database. Reads return only durable data. */
export interface ControlDatabase {
  readonly damage: KnownDamage
  readonly snapshots: Snapshots
  readonly runs: RunRecords
  readonly keyValues: KeyValues & KeyList
  /**
   * Applies all of the writes or none, in the order of the calls, and resolves when they are on disk. Calls within
   * one turn of the event loop share one transaction and one sync. Rejects only when the store is broken or closed.
   */
  commit(writes: readonly Write[]): Promise<void>
  /** Returns the current state of the store. */
  state(): StoreState
  /** Calls the listener on every change of the state. */
  onState(listener: (state: StoreState) => void): Cancel
  /** Writes a consistent copy of the running database into `folder`. */
  backup(folder: string): Promise<void>
}

export interface EventQuery {
  readonly after?: number
  /** Only events with a lower index. */
  readonly before?: number
  readonly limit?: number
}

/** Events as JSON, in batches of limited size. */
export type EventBatches = AsyncIterable<readonly string[]>

/**
 * The events of each run, one JSON object per line.
 *
 * Events become durable with the commit that holds them (`table: 'events'`). A log that is no longer small moves to the
 * run's own file in the background. Readers see one log, in order and without holes.
 */
export interface EventLogs {
  /** Says that the id of a run was made a moment ago: nothing is stored about it, and nobody need look. */
  begin(runId: string): void
  /** Returns the index of the next event, counting committed events only. Reads no file. */
  nextIndex(runId: string): number
  /** Returns the bytes of all committed events of a run. Reads no file. */
  storedBytes(runId: string): number
  /**
   * Reads the events that are durable at the first batch, oldest first. `after`: only events with a higher index. A
   * batch is read when it is asked for, so a slow reader of a long log costs the memory of one batch.
   */
  read(runId: string, query?: EventQuery): EventBatches
  /**
   * Reads every log that is in a file, slowly, so that what is damaged there is in the list of damage. Resolves at the
   * end, or when the store closes. Never rejects.
   */
  findDamage(): Promise<void>
  /** Deletes all events of a run. */
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

/** The artifact folder of each run. No name leads out of it. */
export interface Artifacts {
  /**
   * Writes part 0, 1, … of one artifact. The file appears under its name only when the final part is on disk. A part is
   * refused when all artifacts of the run, unfinished ones too, would have more than `runBytesMax` bytes. An unfinished
   * artifact and the one that it replaces count as the larger of the two. After a refusal every later part is refused,
   * also a repeated one, until a part 0 begins the artifact anew.
   */
  write(
    runId: string,
    name: string,
    part: number,
    data: Uint8Array,
    final: boolean,
    runBytesMax?: number,
  ): Promise<'kept' | 'repeat' | { readonly refused: string }>
  /** Looks one artifact up by its name. */
  find(runId: string, name: string): Promise<ArtifactLookup>
  /** Lists the names of the complete artifacts of a run. */
  names(runId: string): Promise<string[]>
  /** Deletes the artifacts of a run, or the one of this name; unfinished ones too. */
  remove(runId: string, name?: string): Promise<void>
}

export interface UsageKey {
  readonly projectKey: string
  readonly sessionId: string
  readonly subagentId?: string
}

/** Usage snapshots: one file per session or subagent, always replaced as a whole. */
export interface UsageArchive {
  /** Stores a snapshot in place of the earlier one. */
  replace(key: UsageKey, text: string): Promise<void>
  /** Returns the stored text, or undefined when there is none. */
  read(key: UsageKey): Promise<string | undefined>
  /** Lists the snapshots of a project, sorted by session and subagent. */
  list(projectKey: string): Promise<UsageKey[]>
}

/** The configuration file as text. `core/settings` interprets it. */
export interface ConfigFile {
  readonly path: string
  /** Returns the text, or undefined when there is no file yet. */
  read(): Promise<string | undefined>
  /**
   * Replaces `expected` by `text` atomically, and resolves when the change is durable. When a hand edit changed the
   * file in between, nothing is written and the result carries the file's current text.
   */
  replace(
    expected: string | undefined,
    text: string,
  ): Promise<{ readonly is: 'replaced' } | { readonly is: 'changed'; readonly text: string | undefined }>
  /** Saves `text` in an owner-only file beside the configuration file, and returns the path of the copy. */
  saveCopy(text: string): Promise<string>
  /** Calls `onChange` (debounced) whenever the file may have changed. */
  watch(onChange: () => void): Cancel
}

/** The origins for which credentials were checked, beside the configuration file. */
export interface CredentialRecordsFile {
  /** Empty when there is no file yet. */
  read(): CredentialRecords
  /** Replaces the file atomically. */
  replace(records: CredentialRecords): Promise<void>
}

/** The trail of actions, kept apart from the log. */
export interface AuditTrail {
  /**
   * Resolves when the action is on disk, so that nothing is answered before. Never rejects: what could not be written is
   * logged, and counted in the next entry.
   */
  record(action: AuditAction): Promise<void>
}

export interface Store {
  /** The id of the installation to which the data belongs (`core/installation.ts`). */
  readonly installation: string
  readonly database: ControlDatabase
  readonly events: EventLogs
  readonly artifacts: Artifacts
  readonly usage: UsageArchive
  readonly config: ConfigFile
  readonly credentialRecords: CredentialRecordsFile
  readonly trail: AuditTrail
  /** Finishes pending work and releases all resources in order. */
  close(): Promise<void>
}
