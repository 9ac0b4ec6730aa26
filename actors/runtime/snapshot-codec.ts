/**
 * How a life is written down, and read back years later.
 *
 * A record carries the version of its layout. A newer program lifts an older record by one function a version; an
 * older program refuses a newer record rather than guess. State names may be renamed freely: what is on disk is a
 * short code. `fingerprint` changes whenever states, codes or fields change, so a test can insist on a new version.
 */
import { createHash } from 'node:crypto'
import type { AnyMachineSnapshot, StateValue } from 'xstate'
import type { ActorSnapshot } from '../../core/ports.ts'

/** What the fields of a life look like: a check that names the wrong field, and a text that is the same only for the same shape. */
export interface ContextSchema<C> {
  readonly check: (
    value: unknown,
  ) => { readonly ok: true; readonly value: C } | { readonly ok: false; readonly error: string }
  readonly text: string
}

export interface SnapshotCodecOptions<C> {
  readonly version: number
  /** Every state, dotted (`held.streaming`), with its code. */
  readonly states: Readonly<Record<string, string>>
  readonly schema: ContextSchema<C>
  /** By the version they lift from; each answers a record of the next version. */
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
  /** `context`: in place of the snapshot's own, where only a part of it is kept. */
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
  if (values.size !== codes.size) throw new Error('two states of one layout share a code')

  return {
    version: options.version,
    encode(snapshot, deadlines, context = snapshot.context) {
      const state = statePath(snapshot.value)
      const s = codes.get(state)
      if (s === undefined) throw new Error(`state ${state} has no code in its record layout`)
      const record = { v: options.version, s, c: context }
      return deadlines === undefined || deadlines.size === 0
        ? record
        : { ...record, d: Object.fromEntries(deadlines) }
    },
    decode(record) {
      if (record.v > options.version) {
        return {
          is: 'newer',
          reason: `layout ${record.v} was written by a newer version; this one knows ${options.version}`,
        }
      }
      const lifted = liftToCurrent(record, options)
      if (lifted === undefined)
        return { is: 'damaged', reason: `nothing lifts layout ${record.v} to ${options.version}` }
      const value = values.get(lifted.s)
      if (value === undefined)
        return { is: 'damaged', reason: `unknown state code ${JSON.stringify(lifted.s)}` }
      const deadlines = lifted.d ?? {}
      // One that is no number would sit at the root of the heap and hold up everybody's.
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
    if (next.v <= lifted.v) throw new Error(`the lift from layout ${lifted.v} does not raise the version`)
    lifted = next
  }
  return lifted
}

/** `{ held: 'streaming' }` → `held.streaming`. Parallel states are not allowed in persisted kinds. */
export function statePath(value: StateValue): string {
  if (typeof value === 'string') return value
  const [entry, ...others] = Object.entries(value)
  if (entry === undefined || entry[1] === undefined || others.length > 0) {
    throw new Error('a persisted life may not have parallel states')
  }
  return `${entry[0]}.${statePath(entry[1])}`
}

function stateValue(path: string): StateValue {
  const dot = path.indexOf('.')
  return dot < 0 ? path : { [path.slice(0, dot)]: stateValue(path.slice(dot + 1)) }
}
