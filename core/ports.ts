/**
 * The interfaces through which actors reach the outside world, as types only.
 *
 * `store/`, `providers/` and `bin/` implement these ports; `actors/` and `transport/` receive the implementations. No
 * code below `bin/` reads a clock, draws random numbers or opens a file by itself, so a whole host can run inside one
 * test.
 */
import type { AuditAction } from '../protocol/audit.ts'
import type { RepoMapping, ServiceConfig } from '../protocol/config.ts'
import type { Run, RunStatus, Ticket } from '../protocol/run.ts'
import type { TrackerProject } from '../protocol/tracker.ts'
import type { KnownDamage } from './damage.ts'
import type { Result } from './result.ts'
import type { CredentialRecords } from './settings/credential-origins.ts'

// ---- time and randomness ---------------------------------------------------------------------------------------

export type Cancel = () => void

export interface Clock {
  /**
   * Wall time in milliseconds since 1970. The value may jump, so use it only for instants that people or records see.
   */
  now(): number
  /** Milliseconds that never go back, for measuring silence and durations. */
  monotonic(): number
  /** Calls `run` once after `ms` milliseconds, unless the returned function is called first. */
  after(ms: number, run: () => void): Cancel
  /** Calls `run` after all other work of the current turn of the event loop. */
  endOfTick(run: () => void): void
}

export interface RandomSource {
  bytes(count: number): Uint8Array
  /** A random number x with 0 ≤ x < 1. */
  fraction(): number
}

// ---- log -------------------------------------------------------------------------------------------------------

export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

// ---- storage ---------------------------------------------------------------------------------------------------

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

/**
 * The events of each run, one JSON object per line.
 *
 * Events become durable with the commit that holds them (`table: 'events'`). A log that is no longer small moves to the
 * run's own file in the background. Readers see one log, in order and without holes.
 */
export interface EventQuery {
  readonly after?: number
  /** Only events with a lower index. */
  readonly before?: number
  readonly limit?: number
}

/** Events as JSON, in batches of limited size. */
export type EventBatches = AsyncIterable<readonly string[]>

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

// ---- tracker and code host --------------------------------------------------------------------------------------

/** A ticket as its tracker reports it. */
export interface TrackedTicket {
  readonly ticket: Ticket
  /** The ticket is done or abandoned, so it no longer blocks other tickets. */
  readonly closed: boolean
  /**
   * Further names that an eligibility rule may use for the assignee or the project, such as an e-mail address or an
   * id.
   */
  readonly aliases?: { readonly assignee: readonly string[]; readonly project: readonly string[] }
}

export interface TrackerListing {
  /** Each ticket once. A tracker that keeps unchanged objects, and their order, saves its callers work. */
  readonly tickets: readonly TrackedTicket[]
  /** A sentence for each ticket that could not be read. The tickets in the list are valid all the same. */
  readonly problems: readonly string[]
}

/** The tickets that a poll must return. */
export interface TrackerQuery {
  readonly rules: ServiceConfig['tracker']['eligible']
  /** Ids of tickets with an active run. The tracker returns these whatever their state is. */
  readonly tickets: readonly string[]
}

/** A ticket that a person has the host create. Names are those of the configuration. */
export interface NewTicket {
  readonly title: string
  readonly description: string
  readonly priority: Ticket['priority']
  readonly labels: readonly string[]
  /** The repository that the person named. */
  readonly repo?: { readonly key: string; readonly mapping: RepoMapping }
  /** All mappings, among which labels and project of the ticket choose. */
  readonly repos: ServiceConfig['repos']
  readonly rules: TrackerQuery['rules']
  /** Whether the rules are to hold for the ticket or not. */
  readonly isEligible: boolean
}

/** The text holds the key, by which the tracker finds out whether the comment is there. */
export interface TicketComment {
  readonly key: string
  readonly text: string
}

export interface PullLink {
  readonly url: string
  readonly title: string
}

/** The tracker of the current configuration. */
export interface Tracker {
  /**
   * Returns every ticket that is or could become eligible, and the tickets that the query names. Refuses with
   * `unauthorized` when the tracker rejects the credential; every other refusal is temporary.
   */
  listTickets(query: TrackerQuery): Promise<Result<TrackerListing>>
  /**
   * Calls `onChange` (debounced) whenever tickets may have changed. Some trackers cannot report changes and never
   * call it.
   */
  watch(onChange: () => void): Cancel
  /**
   * Moves a ticket to a state. When `from` is given and a person moved the ticket to a state outside it, the ticket
   * stays and the refusal is permanent. Without `from`, a closed ticket stays closed.
   */
  moveTicket(ticketId: string, state: string, from?: readonly string[]): Promise<Result<void>>
  /**
   * Creates a ticket in one step, so that it is complete from the moment in which a poll can see it. Absent when the
   * tracker cannot create tickets. A refusal of the kind `invalid` is about the request; the ticket does not exist.
   */
  createTicket?(ticket: NewTicket): Promise<Result<TrackedTicket>>
  /** Adds a link to the ticket; a repeated call changes nothing. Absent when the tracker has no links. */
  linkPull?(ticketId: string, link: PullLink): Promise<Result<void>>
  /** Comments on the ticket; a repeated call changes nothing. Absent when the tracker has no comments. */
  comment?(ticketId: string, comment: TicketComment): Promise<Result<void>>
  /** Lists the projects that a person can choose from in the eligibility rules. */
  projects(): Promise<Result<readonly TrackerProject[]>>
}

/** The facts about a pull request that a run needs. */
export interface OpenPullRequest {
  readonly number: number
  readonly url: string
  readonly state: 'open' | 'draft'
}

export interface NewPullRequest {
  /** The repository as owner/name. */
  readonly remote: string
  readonly head: string
  readonly base: string
  readonly title: string
  /** The text ends with a marker inside an HTML comment, which people do not see. */
  readonly body: string
  readonly draft: boolean
}

/** The code host where a run's work is published. The driver holds its own credential, and no result contains it. */
export interface CodeHost {
  /** Returns the address, without a credential, that git clones from, fetches from and pushes to. */
  gitAddress(remote: string): string
  /** Returns the open pull request of this head branch, no matter who opened it. */
  findPull(remote: string, head: string, base: string): Promise<Result<OpenPullRequest | undefined>>
  /** Opens a pull request. */
  openPull(request: NewPullRequest): Promise<Result<OpenPullRequest>>
  /** Tells whether a comment in the pull request's conversation contains this text. */
  hasComment(remote: string, number: number, text: string): Promise<Result<boolean>>
  /** Adds a comment to the pull request's conversation. */
  comment(remote: string, number: number, body: string): Promise<Result<void>>
  /**
   * Keeps the first comment that ends with this text, deletes later ones of the same author, and returns how many
   * were deleted.
   */
  dropRepeats(remote: string, number: number, text: string): Promise<Result<number>>
}

// ---- the worker on this machine ----------------------------------------------------------------------------------

/** The part of the local worker that the configuration decides. Another value takes a new process. */
export interface LocalWorkerSettings {
  readonly concurrency: number
  /** The folder of the local code host, which the worker's git may use. */
  readonly codeHostFolder: string | null
  /** `host:port` of the configured code host, which may be at a private address. */
  readonly codeHostOrigin: string | null
}

export interface LocalWorkerOptions extends LocalWorkerSettings {
  /** The host no longer accepts the worker's credential, so the worker must register with a new pairing token. */
  readonly enrollAgain: boolean
  /** Creates a pairing token. Called only when the worker has no valid credential. */
  readonly createPairingToken: () => string
}

export interface LocalWorkerExit {
  /** The exit code; absent when a signal ended the process. */
  readonly code?: number
  readonly signal?: string
}

/** The process of the local worker. The process also ends at once when the host's process ends. */
export interface LocalWorkerProcess {
  /** The worker whose credential the process began with; absent for one that registers with a token. */
  readonly workerId?: string
  /** Makes the worker accept no more runs and end when its current runs are done. */
  drain(): void
  /**
   * Ends the worker and its runs now. Finished work stays on the worker's disk and is reported after the next start.
   */
  stop(): void
  /** Kills the process at once. */
  kill(): void
  /** Resolves when the process has ended. Never rejects. */
  readonly ended: Promise<LocalWorkerExit>
}

/** Starts worker daemons on this machine, each in its own process, one at a time. */
export interface LocalWorkerLauncher {
  start(options: LocalWorkerOptions): Promise<Result<LocalWorkerProcess>>
}

// ---- metrics ---------------------------------------------------------------------------------------------------

/** The sink for metrics, which `/metrics` prints. Names become `switchyard_…`; labels are few and bounded. */
export interface Meters {
  /** Increases a counter. */
  count(name: MeterName, labels?: Readonly<Record<string, string>>, by?: number): void
  /** Sets a gauge. */
  gauge(name: MeterName, value: number, labels?: Readonly<Record<string, string>>): void
  /** Adds a duration to a histogram. */
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
  | 'runs_ended_total'
  | 'run_costs_usd_total'
  | 'run_costs_day_usd'
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
  | 'worker_proofs_total'
  | 'provisions_total'
  | 'workers_unregistered'
