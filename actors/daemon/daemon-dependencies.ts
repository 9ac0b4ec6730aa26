/**
 * What a worker daemon is built from, and what is then to be had of it.
 */
import type { Dialer, Executor, Identity, WorkerDatabase } from '../../core/daemon/ports.ts'
import type { MakeScreen } from '../../core/daemon/terminal.ts'
import type { Clock, Log, Meters, RandomSource } from '../../core/ports.ts'
import type { Result } from '../../core/result.ts'
import type { WorkerCapabilities } from '../../protocol/worker.ts'

export interface DaemonDependencies {
  /** `monotonic` must count the time that the machine sleeps: leases run out on it. */
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly meters: Meters
  readonly database: WorkerDatabase
  readonly dialer: Dialer
  readonly identity: Identity
  readonly executor: Executor
  readonly makeScreen: MakeScreen
  readonly capabilities: Omit<WorkerCapabilities, 'maxConcurrency' | 'version'>
  /** As people see it; the host cuts or replaces what it can't use. */
  readonly name: string
  readonly concurrency: number
  /** This program's. */
  readonly version: string
  /** How long a drain may wait for what is running; without it as long as that takes. */
  readonly drainMsMax?: number
  /**
   * Once, and the last that is heard of the daemon. What can be on disk is, and what it ran is gone, or was killed and
   * did not go in time.
   */
  readonly onEnd: (end: DaemonEnd) => void
}

/**
 * `stopped`: it was asked to. `revoked`, `unauthorized`: the host knows it no more, the credential is gone. `no way
 * in`: neither credential nor usable token. `protocol`, `malformed`: the host does not understand it. `replaced`:
 * another daemon uses its credential. `broken`: its own disk takes no more, or a bug.
 */
export type DaemonEndKind =
  | 'stopped'
  | 'revoked'
  | 'unauthorized'
  | 'no way in'
  | 'protocol'
  | 'malformed'
  | 'replaced'
  | 'broken'

export interface DaemonEnd {
  readonly is: DaemonEndKind
  /** One sentence for the person who finds it ended. */
  readonly detail: string
}

export interface DaemonStatus {
  readonly state: 'starting' | 'serving' | 'draining' | 'stopping' | 'stopped'
  readonly online: boolean
  readonly workerId?: string
  /** Why it is not online, when there is something to say. */
  readonly trouble?: string
  readonly executions: readonly ExecutionStatus[]
}

export interface ExecutionStatus {
  readonly leaseId: string
  readonly runId: string
  readonly phase: string
}

export interface Daemon {
  /** Brings back what is on disk, then dials. Refused: what is on disk can't be read. */
  start(): Result<void>
  /** Takes no more runs; ends when those it has are done and the host knows, and nobody is in a sandbox any more. */
  drain(): void
  /** Kills what is running without claiming it any more, so that the host queues it again; then ends. */
  handBack(): void
  /** Kills what is running; ends when that is gone and everything told is on disk. */
  stopNow(): void
  status(): DaemonStatus
}
