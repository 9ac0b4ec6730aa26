/**
 * LiveActor is one actor in memory: its xstate actor, its last good state, its state on disk, and its crashes.
 */
import type { AnyActor, AnyMachineSnapshot, EventObject } from 'xstate'
import type { Cancel } from '../../core/ports.ts'
import type { ActorKind } from './actor-kind.ts'

export interface LiveActor {
  readonly kind: ActorKind
  readonly key: string
  xstateActor: AnyActor
  /** The state after the last transition that did not throw. A restart returns to it, a commit writes it. */
  lastGood: AnyMachineSnapshot
  /** The state as of the last commit. Only this state may leave the process. */
  durable: AnyMachineSnapshot | undefined
  /** Pending deadlines by name, in wall milliseconds; undefined for actors that never had one. */
  deadlines: Map<string, number> | undefined
  /** Whether the actor has left the registry, so that no event reaches it any more. */
  removed: boolean
  /** Whether the next commit erases the snapshot. An actor that was given up may leave the registry and keep it. */
  erase: boolean
  /** Present while the actor recovers from a crash. */
  recovery: CrashRecovery | undefined
  /** Monotonic instants of recent crashes. */
  crashes: readonly number[]
  /** The event of the last crash. The actor tries it once more; after a second crash the supervisor skips it. */
  suspectEvent: EventObject | undefined
}

export interface CrashRecovery {
  /** Events that arrived since the crash, oldest first. */
  readonly heldEvents: EventObject[]
  readonly cancel: Cancel
}
