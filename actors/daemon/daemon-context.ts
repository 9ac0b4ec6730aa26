/**
 * The daemon context is what every module of the worker daemon is created with: the ports of the outside world, the
 * actor system, and the few services that belong to no module. Beside it stand the dependencies of a daemon, and the
 * interface that the built daemon offers.
 */
import type { Dialer, Executor, WorkerDatabase, WorkerIdentity } from '../../core/daemon/ports.ts'
import type { CreateScreen } from '../../core/daemon/terminal.ts'
import type { Clock, RandomSource } from '../../core/ports/clock.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import type { StoreState } from '../../core/ports/store.ts'
import type { Result } from '../../core/result.ts'
import type { WorkerAgents, WorkerCapabilities } from '../../protocol/worker.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { defineModule } from '../runtime/module.ts'
import type { HostClock } from './host-clock.ts'
import type { HostSender } from './host-sender.ts'
import type { SleepAwareTimers } from './sleep-aware-timers.ts'

export interface DaemonContext extends Omit<DaemonDependencies, 'capabilities' | 'version' | 'onEnd'> {
  readonly system: ActorSystem
  readonly timers: SleepAwareTimers
  /** Frames go out to the host here. */
  readonly hostSender: HostSender
  /** The capabilities that the worker reports at its start. */
  readonly capabilities: WorkerCapabilities
  readonly storeState: () => StoreState
  readonly requestCommit: () => void
  readonly publish: (change: DaemonChange) => void
  /** The daemon is neither starting nor on its way to an end. */
  readonly isServing: () => boolean
  /** Ends the process: only the first call counts. */
  readonly finish: (end: DaemonEnd) => void
}

/** A view answers differently from now on. */
export type DaemonChange =
  | { readonly view: 'executions' | 'resumed sandboxes' | 'capabilities' | 'host clock' }
  | { readonly view: 'host connection'; readonly key: 'up' | 'down' }

export const defineDaemonModule = defineModule<DaemonContext>()

/** The dependencies of a worker daemon. */
export interface DaemonDependencies {
  /** `monotonic` must include the time that the machine sleeps, because leases expire by it. */
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly meters: Meters
  readonly database: WorkerDatabase
  readonly dialer: Dialer
  readonly identity: WorkerIdentity
  readonly executor: Executor
  /** The executor asks the same object for the time. */
  readonly hostClock: HostClock
  readonly makeScreen: CreateScreen
  /** The capabilities that the worker reports at its start. */
  readonly capabilities: Omit<WorkerCapabilities, 'maxConcurrency' | 'version'>
  /** Looks for the agents on this machine. Absent: the reported agents never change. */
  readonly probeAgents?: () => Promise<WorkerAgents>
  /** The display name. The host shortens it or replaces characters that it does not allow. */
  readonly name: string
  readonly concurrency: number
  /** The version of this program. */
  readonly version: string
  /** How long a drain may wait for running executions. Absent: without a limit. */
  readonly drainMsMax?: number
  /** Take one run, report it, and end. */
  readonly once?: boolean
  /** People who inspect the host may see the names and states of this worker's actors. */
  readonly sharesActors?: boolean
  /** End when for so long there was neither a run nor a terminal. Absent: stay. */
  readonly idleMsMax?: number
  /**
   * Called once, as the daemon's last act. By then everything that could be written is on disk, and every process is
   * gone, or was killed and did not exit in time.
   */
  readonly onEnd: (end: DaemonEnd) => void
}

/**
 * Why a daemon ended:
 * - `stopped`: somebody requested it, or there was nothing more to do.
 * - `unreported`: its only run is done, but the host did not acknowledge it in time.
 * - `revoked`, `unauthorized`: the host does not accept the worker any more, and the credential is deleted.
 * - `no-credential`: there is neither a credential nor a usable pairing token.
 * - `protocol`, `malformed`: the host does not understand this version.
 * - `replaced`: another daemon uses the same credential.
 * - `broken`: the disk cannot be written any more, or there is a bug.
 */
export type DaemonEndKind =
  | 'stopped'
  | 'unreported'
  | 'revoked'
  | 'unauthorized'
  | 'no-credential'
  | 'protocol'
  | 'malformed'
  | 'replaced'
  | 'broken'

export interface DaemonEnd {
  readonly is: DaemonEndKind
  /** A sentence for the person who reads why the daemon ended. */
  readonly detail: string
}

export interface DaemonStatus {
  readonly state: 'starting' | 'serving' | 'draining' | 'stopping' | 'stopped'
  readonly online: boolean
  readonly workerId?: string
  /** Why the daemon is not online, as far as it is known. */
  readonly trouble?: string
  readonly executions: readonly ExecutionStatus[]
}

export interface ExecutionStatus {
  readonly leaseId: string
  readonly runId: string
  readonly phase: string
}

export interface Daemon {
  /** Restores what is on disk, then connects. Refused when the disk cannot be read. */
  start(): Result<void>
  /** Accepts no more runs. Ends when all runs are done and acknowledged and no resumed sandbox is left. */
  drain(): void
  /** Kills all executions and stops claiming them, so that the host queues their runs again; then ends. */
  handBack(): void
  /** Kills all executions. Ends when their processes are gone and all reports are on disk. */
  stopNow(): void
  status(): DaemonStatus
}
