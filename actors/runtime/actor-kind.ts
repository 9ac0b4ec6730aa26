/**
 * ActorKind declares one kind of actor: its state machine, its format on disk, and what happens when it throws.
 */
import type { AnyStateMachine, EventObject, StateValue } from 'xstate'
import type { ControlDatabase, Write } from '../../core/ports/store.ts'
import type { SnapshotCodec } from './snapshot-codec.ts'
import type { ActorAddress, Effect } from './transition-output.ts'

declare const types: unique symbol

/** The name of a kind. Its types exist only for the compiler, which checks by them what an actor receives and shows. */
export type KindName<C = unknown, E extends EventObject = EventObject, I = unknown> = string & {
  readonly [types]: { readonly context: C; readonly event: E; readonly input: I }
}

/** Names a kind by its context, its events, and the input that an actor is spawned with. */
export function kindName<C, E extends EventObject, I = unknown>(name: string): KindName<C, E, I> {
  // A string has no types; they are what the caller declares.
  return name as KindName<C, E, I>
}

/** The part of an actor with the context `C` that others may read. */
export interface ActorState<C = unknown> {
  readonly value: StateValue
  readonly context: C
}

/** An effect or event that arises outside a transition. The effect runs after the next commit. */
export type ImpliedOutput =
  | { readonly is: 'effect'; readonly effect: Effect }
  | { readonly is: 'event'; readonly to: ActorAddress; readonly event: EventObject }

export interface Supervision<C = unknown> {
  /** Pauses before the first, second … restart; the last one repeats. Empty: the actor is never restarted. */
  readonly restartAfterMs: readonly number[]
  /**
   * By default an event that crashes its actor twice is logged and skipped. `give up` ends the actor instead; use it
   * where a caller waits for the answer to every event, because skipping one would leave that caller waiting for ever.
   */
  readonly onRepeatedCrash?: 'give up'
  /** The supervisor gives the actor up after this many crashes within `withinMs`. */
  readonly crashesMax: number
  readonly withinMs: number
  /**
   * The fate of an actor that is given up:
   * `closed`: it leaves the registry and the disk, and its final outputs are sent;
   * `kept`: it leaves the registry, but its snapshot stays on disk for the next start;
   * `fatal`: the whole process stops.
   */
  readonly finally: 'closed' | 'kept' | 'fatal'
  /** Informs others when an actor is given up, or throws while it is spawned (then `last.status` is `error`). */
  finalOutputs?(
    key: string,
    last: ActorState<C>,
    reason: string,
    /** Wall milliseconds. */
    at: number,
  ): readonly ImpliedOutput[]
}

/**
 * Splits an actor's context into its snapshot and rows of other tables. A run is stored this way: its record lies in
 * the table of all runs, finished or not, and only its remaining fields are in the snapshot.
 */
export interface SnapshotSplit<C = unknown> {
  /** Picks the fields that go into the snapshot, as the codec's schema describes them. */
  storedContext(context: C): unknown
  /** Creates the writes beside the snapshot, for the same commit. `durable`: the context as it was written last. */
  rowWrites(key: string, context: C, durable: C | undefined): readonly Write[]
  /** Joins the snapshot and the rows to a whole context; undefined when a row is missing. */
  joinContext(
    key: string,
    kept: unknown,
    database: { readonly runs: Pick<ControlDatabase['runs'], 'get'> },
  ): unknown
}

/** `C` is the context of its actors. Methods take it, so a list may hold kinds of any context. */
export interface ActorKind<C = unknown> {
  /** Also the xstate id of every actor of this kind: a separate id for each would leak memory in the parent. */
  readonly name: string
  /** A singleton starts with the process; its key is the name of its kind. */
  readonly singleton?: true
  readonly logic: AnyStateMachine
  /** Absent: actors of this kind are not stored and end with the process. */
  readonly codec?: SnapshotCodec
  readonly split?: SnapshotSplit<C>
  readonly supervision: Supervision<C>
  /** Names of the deadlines that end what can't be made again: they come only while nothing contradicts the wall clock. */
  readonly trustedDeadlines?: readonly string[]
  /**
   * Effects of a diskless actor run at the end of the tick without a commit, and it receives events even after the
   * store failed. Only for the actor that must stop the process then; it may store nothing.
   */
  readonly diskless?: true
  /**
   * Derives effects and events from a restored state. A crash between a commit and its effects loses the effects, so
   * every state must be able to name the effect that it waits for.
   */
  impliedOutputs?(key: string, restored: ActorState<C>): readonly ImpliedOutput[]
}

/** For connections to providers and pollers: they are restarted, and the process stops when restarts do not help. */
export const restartOrFatal: Supervision = {
  restartAfterMs: [1_000, 2_000, 4_000],
  onRepeatedCrash: 'give up',
  crashesMax: 5,
  withinMs: 60_000,
  finally: 'fatal',
}

/** For worker connections and short flows: they end at the first crash, and the peer tries again. */
export const closeOnCrash: Supervision = {
  restartAfterMs: [],
  crashesMax: 1,
  withinMs: 60_000,
  finally: 'closed',
}

/** For the root: only a bug can crash it, and nothing works without it. */
export const fatalOnCrash: Supervision = {
  restartAfterMs: [],
  crashesMax: 1,
  withinMs: 60_000,
  finally: 'fatal',
}
