/**
 * The smallest realistic durable actor: two states, an arrow without guard each way, one assign, one effect. The
 * same step also exists by hand on a record that looks the same on disk.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../../actors/runtime/actions.ts'
import { type ActorKind, kindName } from '../../actors/runtime/actor-kind.ts'
import { createSnapshotCodec } from '../../actors/runtime/snapshot-codec.ts'

export interface CounterContext extends Readonly<Record<string, unknown>> {
  readonly name: string
  readonly n: number
}

export interface CounterEvent {
  readonly type: 'step'
  /** The caller that waits for the step. */
  readonly caller: number
}

export interface CounterEffect {
  readonly type: 'counter.stepped'
  readonly caller: number
}

const { recordEffect } = defineActions<CounterContext, CounterEvent, CounterEffect>()

export const COUNTER = kindName<CounterContext, CounterEvent, CounterContext>('counter')

export function smallContext(name: string): CounterContext {
  return { name, n: 0, runId: '01J9ZQ4T3W5X6Y7Z8A9B0C1D2E', workerId: 'wk-01J9ZQ4T3W5X6Y7Z8A9B0C1D2F' }
}

/** About as large as a lease's context: 365 bytes as JSON, 171 on disk. */
export function leaseContext(name: string, at: number): CounterContext {
  return {
    name,
    n: 0,
    runId: `run-01J9ZQ4T3W5X6Y7Z8A${String(at).padStart(8, '0')}`,
    workerId: `wk-01J9ZQ4T3W5X6Y7Z8A9B0C${String(at % 100).padStart(4, '0')}`,
    slot: at % 8,
    fence: 1_000 + at,
    attempt: 1,
    ticket: `ENG-${at}`,
    repository: 'https://code.example.org/team/repo',
    branch: `agent/eng-${at}`,
    sandbox: { provider: 'bwrap', id: `box-${at}` },
    grantedAt: 1_767_225_600_000 + at,
    renewedAt: 1_767_225_660_000 + at,
    cancelling: false,
    reason: null,
  }
}

/** The stored record, for the same step by hand. */
export interface CounterRecord {
  v: number
  s: string
  c: { name: string; n: number }
}

export function createRecord(context: CounterContext): CounterRecord {
  return { v: 1, s: 'e', c: { ...context } }
}

export function stepRecord(record: CounterRecord): CounterRecord {
  record.s = record.s === 'e' ? 'o' : 'e'
  record.c.n++
  return record
}

const machine = setup({
  types: {} as { context: CounterContext; events: CounterEvent; input: CounterContext },
  actions: {
    count: assign({ n: ({ context }) => context.n + 1 }),
    notifyCaller: recordEffect(({ event }) => ({ type: 'counter.stepped', caller: event.caller })),
  },
}).createMachine({
  id: COUNTER,
  context: ({ input }) => input,
  initial: 'even',
  states: {
    even: { on: { step: { target: 'odd', actions: ['count', 'notifyCaller'] } } },
    odd: { on: { step: { target: 'even', actions: ['count', 'notifyCaller'] } } },
  },
})

export const counterKind: ActorKind = {
  name: COUNTER,
  logic: machine,
  codec: createSnapshotCodec<CounterContext>({
    version: 1,
    states: { even: 'e', odd: 'o' },
    schema: { check: (value) => ({ ok: true, value: value as CounterContext }), text: 'counter' },
    lifts: {},
  }),
  supervision: { restartAfterMs: [], crashesMax: 1, withinMs: 1, finally: 'closed' },
}
