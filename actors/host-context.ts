/**
 * The host context is what every module of the host is created with: the ports of the outside world, the actor system,
 * and the few services that belong to no module.
 */
import type { createIds } from '../core/ids.ts'
import type { LeaseTimeouts } from '../core/lease/deadline.ts'
import type { Accounts } from '../core/ports/accounts.ts'
import type { Bucket } from '../core/ports/bucket.ts'
import type { Clock, RandomSource } from '../core/ports/clock.ts'
import type { PullReference, PullRequestApi } from '../core/ports/code-host.ts'
import type { Log, Meters } from '../core/ports/log.ts'
import type { LocalWorkerLauncher, RemoteMachines, WorkerFiles } from '../core/ports/machines.ts'
import type { Store } from '../core/ports/store.ts'
import type { Tracker } from '../core/ports/tracker.ts'
import type { Result } from '../core/result.ts'
import type { FindTlsFault } from '../core/settings/listeners.ts'
import type { ServiceConfig } from '../protocol/config.ts'
import type { DashboardBroadcast } from './dashboard/dashboard-broadcast.ts'
import type { Inspection } from './inspection/inspection.ts'
import type { ActorSystem } from './runtime/actor-system.ts'
import { defineModule } from './runtime/module.ts'
import type { MonotonicTimers } from './runtime/monotonic-timers.ts'
import type { CurrentConfig } from './settings/current-config.ts'

/** Laws that are cheap enough to be watched in production. A broken one is a bug, counted and logged. */
export type WatchedLaw = 'one live lease a run' | 'durable before dispatch' | 'acknowledged never falls'

/** A view answers differently from now on. */
export type HostChange =
  | {
      readonly view: 'finished run' | 'wait reason' | 'pull merged' | 'pull confirmed' | 'pull state hint'
      /** The id of the run. */
      readonly key: string
    }
  /** `keys`: the names of the tickets. */
  | { readonly view: 'tickets'; readonly keys: ReadonlySet<string> }
  /** `terminals`: a view of one was opened or closed. */
  | { readonly view: 'placement' | 'trouble' | 'terminals' }
  /** People who inspect the host begin or cease to watch the actors of the worker `key`. */
  | { readonly view: 'worker watched'; readonly key: string; readonly on: boolean }

export interface ProvisioningDependencies {
  readonly machines: RemoteMachines
  readonly files: WorkerFiles
  /** The port of the fleet listener, once it is open. */
  readonly fleetPort: () => number | undefined
  /** The user of this process, for a worker on the same machine. */
  readonly hostUser?: string
}

export interface HostContext {
  readonly clock: Clock
  /** Milliseconds that also pass while the machine sleeps. */
  readonly elapsedMs: () => number
  readonly random: RandomSource
  readonly log: Log
  readonly meters: Meters
  readonly store: Store
  readonly system: ActorSystem
  readonly timers: MonotonicTimers
  readonly ids: ReturnType<typeof createIds>
  /** The wall clock, as records write it. */
  readonly instant: () => string
  readonly currentConfig: CurrentConfig
  readonly config: () => ServiceConfig
  readonly timeouts: () => LeaseTimeouts
  /** Called when another configuration is in force. */
  readonly onConfigChange: () => void
  readonly broadcast: DashboardBroadcast
  readonly requestCommit: () => void
  readonly publish: (change: HostChange) => void
  /** Something changed that may let a run be placed. */
  readonly requestScheduling: () => void
  /** For people who watch the actors. */
  readonly inspection: Inspection
  readonly onInvariantViolated: (law: WatchedLaw) => void

  readonly findTlsFault: FindTlsFault
  readonly trackerFor: (config: ServiceConfig) => Tracker | undefined
  readonly accounts: Accounts
  readonly bucket: Bucket
  /** Refused while no code host is connected. */
  readonly pullRequestApi: () => Result<PullRequestApi>
  /** The pull request that a URL points to at the configured code host, connected or not. */
  readonly parsePullUrl: (url: string) => PullReference | undefined
  /** Absent where this machine can't execute runs. */
  readonly localWorkerLauncher: LocalWorkerLauncher | undefined
  /** Absent where the host can reach no other machines. */
  readonly provisioning: ProvisioningDependencies | undefined
  /** The port of the management listener, once it is open. */
  readonly managementPort: () => number | undefined
  readonly version: string

  /** The service takes requests and connections: from the moment at which its listeners are being opened. */
  readonly isOpen: () => boolean
  /** New leases may be granted. */
  readonly isServing: () => boolean
}

export const defineHostModule = defineModule<HostContext>()
