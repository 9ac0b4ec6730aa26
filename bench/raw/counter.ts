/**
 * The smallest durable life that is still an honest one: two states, a guardless arrow each way, one assign, one
 * effect. Its record is what the raw contestants write, byte for byte as long.
 */
import { assign, setup } from 'xstate'
import { deeds } from '../../actors/kit/deeds.ts'
import type { Kind } from '../../actors/kit/kind.ts'
import { layout } from '../../actors/kit/records.ts'

export interface CounterContext {
  readonly name: string
  readonly n: number
  readonly runId: string
  readonly workerId: string
}

export interface CounterEvent {
  readonly type: 'step'
}

export interface CounterEffect {
  readonly type: 'counter.stepped'
  readonly name: string
}

const { queue } = deeds<CounterContext, CounterEvent, CounterEffect>()

export const COUNTER = 'counter'

export function counterContext(name: string): CounterContext {
  return { name, n: 0, runId: '01J9ZQ4T3W5X6Y7Z8A9B0C1D2E', workerId: 'wk-01J9ZQ4T3W5X6Y7Z8A9B0C1D2F' }
}

const machine = setup({
  types: {} as { context: CounterContext; events: CounterEvent; input: { name: string } },
  actions: {
    count: assign({ n: ({ context }) => context.n + 1 }),
    say: queue(({ context }) => ({ type: 'counter.stepped', name: context.name })),
  },
}).createMachine({
  id: COUNTER,
  context: ({ input }) => counterContext(input.name),
  initial: 'even',
  states: {
    even: { on: { step: { target: 'odd', actions: ['count', 'say'] } } },
    odd: { on: { step: { target: 'even', actions: ['count', 'say'] } } },
  },
})

export const counterKind: Kind = {
  name: COUNTER,
  logic: machine,
  layout: layout<CounterContext>({
    v: 1,
    states: { even: 'e', odd: 'o' },
    shape: { check: (value) => ({ ok: true, value: value as CounterContext }), text: 'counter' },
    lifts: {},
  }),
  supervision: { restartAfterMs: [], crashesMax: 1, withinMs: 1, finally: 'closed' },
}
