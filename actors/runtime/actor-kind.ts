/**
 * A kind of life: its logic, how it is written down, and what happens when it throws.
 */
import type { AnyMachineSnapshot, AnyStateMachine, EventObject } from 'xstate'
import type { ControlDatabase, Write } from '../../core/ports.ts'
import type { SnapshotCodec } from './snapshot-codec.ts'
import type { ActorAddress, Effect } from './transition-output.ts'

/** What a rule outside a transition may ask for: an effect after the next commit, or an event for a life. */
export type ImpliedOutput =
  | { readonly is: 'effect'; readonly effect: Effect }
  | { readonly is: 'event'; readonly to: ActorAddress; readonly event: EventObject }

export interface Supervision {
  /** Pauses before the first, second … restart; the last one repeats. Empty: never restarted. */
  readonly restartAfterMs: readonly number[]
  /**
   * An event that crashes its life twice is recorded, and the life goes on without it. Not so for lives in which
   * somebody waits for the answer to every event: going on without one would leave them waiting for ever.
   */
  readonly onRepeatedCrash?: 'give up'
  /** With this many crashes within `withinMs` it is given up. */
  readonly crashesMax: number
  readonly withinMs: number
  /**
   * Given up, it is:
   * `closed`: taken out of the registry and off the disk, after saying its last words;
   * `kept`: taken out of the registry, its record left on disk for the next start (nothing is lost);
   * `fatal`: the whole host stops.
   */
  readonly finally: 'closed' | 'kept' | 'fatal'
  /** What others must be told when it is given up, or throws while being born (then `last` says `error`). */
  readonly finalOutputs?: (
    key: string,
    last: AnyMachineSnapshot,
    reason: string,
    /** Wall milliseconds. */
    at: number,
  ) => readonly ImpliedOutput[]
}

/**
 * For lives a part of which is kept where others look for it: a run's record lies among all runs, be they alive or
 * not. The rest of its fields make up the life's own record.
 */
export interface SnapshotSplit {
  /** What goes into the life's own record, of the layout's shape. */
  storedContext(context: unknown): unknown
  /** What is written beside it, in the same commit. `durable`: the context as it was written last. */
  rowWrites(key: string, context: unknown, durable: unknown): readonly Write[]
  /** Both parts together again; undefined when the other part is missing. */
  joinContext(
    key: string,
    kept: unknown,
    database: { readonly runs: Pick<ControlDatabase['runs'], 'get'> },
  ): unknown
}

export interface ActorKind {
  /** Also the actor id of every life of this kind: an id of its own for each would leak in the parent. */
  readonly name: string
  readonly logic: AnyStateMachine
  /** Absent: lives of this kind do not outlive the process. */
  readonly codec?: SnapshotCodec
  readonly split?: SnapshotSplit
  readonly supervision: Supervision
  /**
   * Its effects run at the end of the tick, whatever the disk does, and it hears events even after the store broke.
   * Only for the life that has to stop everything then; it may keep nothing on disk.
   */
  readonly diskless?: true
  /**
   * What a restored state implies: an effect may have been lost between its commit and its running, so every state
   * must be able to say which effect it is waiting for.
   */
  readonly impliedOutputs?: (key: string, restored: AnyMachineSnapshot) => readonly ImpliedOutput[]
}

/** Links, watchers and the like: brought back again and again, the host stops when that does not help. */
export const restartOrFatal: Supervision = {
  restartAfterMs: [1_000, 2_000, 4_000],
  onRepeatedCrash: 'give up',
  crashesMax: 5,
  withinMs: 60_000,
  finally: 'fatal',
}

/** Connections and short flows: gone at the first crash; the peer comes back. */
export const closeOnCrash: Supervision = {
  restartAfterMs: [],
  crashesMax: 1,
  withinMs: 60_000,
  finally: 'closed',
}

/** What only a bug can break, and nothing works without: the root. */
export const fatalOnCrash: Supervision = {
  restartAfterMs: [],
  crashesMax: 1,
  withinMs: 60_000,
  finally: 'fatal',
}
