/**
 * One living actor as its host sees it: the actor itself, its last good state, what is on disk of it.
 */
import type { AnyActor, AnyMachineSnapshot, EventObject } from 'xstate'
import type { Cancel } from '../../core/ports.ts'
import type { ActorKind } from './actor-kind.ts'

export interface LiveActor {
  readonly kind: ActorKind
  readonly key: string
  xstateActor: AnyActor
  /** The state after the last transition that did not throw: what a restart goes back to, what a commit writes. */
  lastGood: AnyMachineSnapshot
  /** The state as of the last commit: what may be told to anyone. */
  durable: AnyMachineSnapshot | undefined
  /** Pending deadlines by name; made only for lives that have some. */
  deadlines: Map<string, number> | undefined
  /** Out of the registry: nothing reaches it any more. */
  removed: boolean
  /** To be taken off the disk. One that was given up may be gone and yet kept there. */
  erase: boolean
  /** Present while it recovers from a crash. */
  recovery: CrashRecovery | undefined
  /** Monotonic instants of recent crashes. */
  crashes: readonly number[]
  /** The event it crashed on last. It is tried once more; crashing on it again, the life goes on without it. */
  suspectEvent: EventObject | undefined
}

export interface CrashRecovery {
  /** What arrived meanwhile, oldest first. */
  readonly heldEvents: EventObject[]
  readonly cancel: Cancel
}
