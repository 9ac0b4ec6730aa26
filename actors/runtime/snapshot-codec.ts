/**
 * SnapshotCodec encodes an actor's state for the disk and decodes it, years later too.
 *
 * A snapshot carries the version of its format. A newer program lifts an older snapshot by one function per version; an
 * older program refuses a newer snapshot instead of guessing. State names may change freely, because the disk holds a
 * short code. `fingerprint` changes whenever states, codes or fields change, so a test can demand a new version.
 */
import { createHash } from 'node:crypto'
import type { AnyMachineSnapshot, StateValue } from 'xstate'
import type { ActorSnapshot } from '../../core/ports/store.ts'

/** Describes the fields of a context: `check` names the wrong field, `text` is equal only for equal schemas. */
export interface ContextSchema<C> {
  readonly check: (
    value: unknown,
  ) => { readonly ok: true; readonly value: C } | { readonly ok: false; readonly error: string }
  readonly text: string
}

export interface SnapshotCodecOptions<C> {
  readonly version: number
  /** The code of every state, by its path (`held.streaming`). */
  readonly states: Readonly<Record<string, string>>
  readonly schema: ContextSchema<C>
  /** Functions by the version that they lift from; each returns a snapshot of the next version. */
  readonly lifts: Readonly<Record<number, (record: ActorSnapshot) => ActorSnapshot>>
}

export interface DecodedSnapshot {
  readonly value: StateValue
  readonly context: unknown
  readonly deadlines: Readonly<Record<string, number>>
}

export type DecodeResult =
  | { readonly is: 'snapshot'; readonly snapshot: DecodedSnapshot }
  | { readonly is: 'newer'; readonly reason: string }
  | { readonly is: 'damaged'; readonly reason: string }

export interface SnapshotCodec {
  readonly version: number
  /** @param context replaces the snapshot's own, where only a part of it is stored */
  encode(
    snapshot: AnyMachineSnapshot,
    deadlines: ReadonlyMap<string, number> | undefined,
    context?: unknown,
  ): ActorSnapshot
  decode(record: ActorSnapshot): DecodeResult
  fingerprint(): string
}

export function createSnapshotCodec<C>(options: SnapshotCodecOptions<C>): SnapshotCodec {
  const codes = new Map(Object.entries(options.states))
  const values = new Map([...codes].map(([state, code]) => [code, stateValue(state)]))
  if (values.size !== codes.size) throw new Error('two states of one snapshot codec share a code')

  return {
    version: options.version,
    encode(snapshot, deadlines, context = snapshot.context) {
      const state = statePath(snapshot.value)
      const s = codes.get(state)
      if (s === undefined) throw new Error(`state ${state} has no code in its snapshot codec`)
      const record = { v: options.version, s, c: context }
      return deadlines === undefined || deadlines.size === 0
        ? record
        : { ...record, d: Object.fromEntries(deadlines) }
    },
    decode(record) {
      if (record.v > options.version) {
        return {
          is: 'newer',
          reason: `format ${record.v} was written by a newer version; this version reads up to ${options.version}`,
        }
      }
      const lifted = liftToCurrent(record, options)
      if (lifted === undefined)
        return { is: 'damaged', reason: `no lift from format ${record.v} to ${options.version}` }
      const value = values.get(lifted.s)
      if (value === undefined)
        return { is: 'damaged', reason: `unknown state code ${JSON.stringify(lifted.s)}` }
      const deadlines = lifted.d ?? {}
      // A deadline that is no number would stay at the root of the heap and block all others.
      if (!Object.values(deadlines).every(Number.isFinite)) {
        return { is: 'damaged', reason: 'a deadline is not a number' }
      }
      const fields = options.schema.check(lifted.c)
      if (!fields.ok) return { is: 'damaged', reason: fields.error }
      return { is: 'snapshot', snapshot: { value, context: fields.value, deadlines } }
    },
    fingerprint: () =>
      createHash('sha256')
        .update(JSON.stringify([options.version, [...codes].sort(), options.schema.text]))
        .digest('hex')
        .slice(0, 16),
  }
}

function liftToCurrent<C>(
  record: ActorSnapshot,
  options: SnapshotCodecOptions<C>,
): ActorSnapshot | undefined {
  let lifted = record
  while (lifted.v < options.version) {
    const lift = options.lifts[lifted.v]
    if (lift === undefined) return undefined
    const next = lift(lifted)
    if (next.v <= lifted.v) throw new Error(`the lift from format ${lifted.v} does not raise the version`)
    lifted = next
  }
  return lifted
}

/** Turns `{ held: 'streaming' }` into `held.streaming`. Parallel states are not allowed in stored actors. */
export function statePath(value: StateValue): string {
  if (typeof value === 'string') return value
  const [entry, ...others] = Object.entries(value)
  if (entry === undefined || entry[1] === undefined || others.length > 0) {
    throw new Error('a stored actor may not have parallel states')
  }
  return `${entry[0]}.${statePath(entry[1])}`
}

function stateValue(path: string): StateValue {
  const dot = path.indexOf('.')
  return dot < 0 ? path : { [path.slice(0, dot)]: stateValue(path.slice(dot + 1)) }
}
