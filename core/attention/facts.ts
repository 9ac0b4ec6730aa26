/** The facts from which the list of what needs a person is made. */
import type { ServiceConfig } from '../../protocol/config.ts'
import type { Run, RunEvent } from '../../protocol/run.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type { Damage } from '../damage.ts'
import type { RefusedWork } from '../run/publishing.ts'

/** An instant as records write it. */
type IsoInstant = string

export interface AwayWorker {
  readonly id: string
  readonly name: string
  readonly lastSeenAt: IsoInstant
  /** Since when its connection is known to have ended; undefined when nothing is known since the host started. */
  readonly goneSince?: IsoInstant
  /** Runs that have a lease of the worker, or wait for what its sandboxes hold. */
  readonly neededBy: readonly Run[]
  readonly unpublished: readonly HeldWork[]
}

export interface FullWorker extends Pick<AwayWorker, 'id' | 'name'> {
  /** The worker's words about what its disk lacks. */
  readonly reason: string
  readonly since: IsoInstant
}

/** Finished work that only the sandbox of a worker holds, apart from a bundle. */
export interface HeldWork {
  readonly run: Run
  readonly artifacts: readonly string[]
}

export interface KnownSince {
  readonly damage: Damage
  readonly since: IsoInstant
}

export interface UnreadableRepository {
  /** The queue reason of the runs that need the repository. */
  readonly reason: string
  /** Since when the first of them waits. */
  readonly since: IsoInstant
  /** The queued runs that wait until it can be read. */
  readonly waiting: readonly Run[]
  /** The runs whose pull requests are not followed until then. */
  readonly unfollowed: readonly Run[]
}

export interface AttentionFacts {
  /** Wall milliseconds. */
  readonly now: number
  /** When this host started, in wall milliseconds: no worker could be connected before. */
  readonly startedAt: number
  readonly config: ServiceConfig
  /** The newest runs of their tickets, which have ended and may need a person. */
  readonly endedRuns: readonly Run[]
  /** Ids of tickets that have an active run. */
  readonly activeTickets: ReadonlySet<string>
  /** Ids of tickets that are closed, so that a failure does not matter any more. */
  readonly closedTickets: ReadonlySet<string>
  /** The last usage limit of each run. */
  readonly limits: ReadonlyMap<string, UsageLimitEvent>
  /** Since when pull requests have conflicts as far as the host knows, by address. */
  readonly conflicts: ReadonlyMap<string, IsoInstant>
  /** The verdicts of checks and reviewers on pull requests as far as the host knows, by address: `checks red`. */
  readonly verdicts: ReadonlyMap<string, string>
  /** The queue reasons of runs that wait for a credential, and since when the first of them waits. */
  readonly credentials: readonly { readonly reason: string; readonly since: IsoInstant }[]
  readonly awayWorkers: readonly AwayWorker[]
  /** Workers that are connected and refuse runs, which wait, because their disks are full. */
  readonly fullWorkers: readonly FullWorker[]
  /** The damage of the data directory, and since when it is known. */
  readonly damage: readonly KnownSince[]
  readonly unreadable: readonly UnreadableRepository[]
  /** Queued runs for which no repository is configured, or several are, with their queue reasons. */
  readonly unmapped: readonly { readonly run: Run; readonly reason: string }[]
  /** Finished work that can't be published, and since when. */
  readonly unpublished: readonly (RefusedWork & { readonly since: IsoInstant })[]
  /** Queued runs whose finished work holds keys. */
  readonly withKeys: readonly Run[]
  /** Why the host's disk takes no writes, and since when. */
  readonly disk?: { readonly reason: string; readonly since: IsoInstant }
  readonly tracker: TrackerStatus
  /** Since when the tracker has a problem. */
  readonly trackerSince?: IsoInstant
}

export type UsageLimitEvent = Extract<RunEvent, { type: 'limit' }>
