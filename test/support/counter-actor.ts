/**
 * A small actor for the tests of the actor system.
 *
 * The actor counts, sends events to other actors, spawns actors, sets deadlines and ends. On demand it throws after it has
 * already added effects to its transition output.
 */
import { assign, setup } from 'xstate'
import { defineActions, eventTo } from '../../actors/runtime/actions.ts'
import { type ActorKind, kindName, type Supervision } from '../../actors/runtime/actor-kind.ts'
import { createSnapshotCodec } from '../../actors/runtime/snapshot-codec.ts'

export interface TallyContext {
  readonly name: string
  readonly n: number
}

export type TallyEvent =
  | { readonly type: 'add' }
  | { readonly type: 'pass'; readonly to: string }
  | { readonly type: 'spawn'; readonly name: string }
  | { readonly type: 'boom' }
  | { readonly type: 'rest' }
  | { readonly type: 'wait'; readonly until: number }
  | { readonly type: 'forget' }
  | { readonly type: 'end' }
  | { readonly type: 'deadline.nap' }

export const TALLY = kindName<TallyContext, TallyEvent, { readonly name: string }>('tally')

export type TallyEffect =
  | { readonly type: 'tally.counted'; readonly name: string; readonly n: number }
  | { readonly type: 'tally.ended'; readonly name: string }
  | { readonly type: 'tally.discarded'; readonly name: string }

const { recordEffect, sendEvent, spawnActor, setDeadline, cancelDeadline } = defineActions<
  TallyContext,
  TallyEvent,
  TallyEffect
>()

export const tallyMachine = setup({
  types: {} as { context: TallyContext; events: TallyEvent; input: { name: string } },
  actions: {
    count: assign({ n: ({ context }) => context.n + 1 }),
    recordCount: recordEffect(({ context }) => ({ type: 'tally.counted', name: context.name, n: context.n })),
    recordDiscarded: recordEffect(({ context }) => ({ type: 'tally.discarded', name: context.name })),
    sendToOther: sendEvent(({ event }) =>
      eventTo(TALLY, event.type === 'pass' ? event.to : '', { type: 'add' }),
    ),
    spawnOther: spawnActor(({ event }) => {
      const name = event.type === 'spawn' ? event.name : ''
      return { to: { kind: TALLY, key: name }, input: { name } }
    }),
    throwError: () => {
      throw new Error('boom')
    },
    nap: setDeadline(({ event }) => ({ name: 'nap', at: event.type === 'wait' ? event.until : 0 })),
    cancelNap: cancelDeadline('nap'),
    recordEnd: recordEffect(({ context }) => ({ type: 'tally.ended', name: context.name })),
  },
}).createMachine({
  id: 'tally',
  context: ({ input }) => ({ name: input.name, n: 0 }),
  initial: 'awake',
  entry: 'recordCount',
  states: {
    awake: {
      on: {
        add: { actions: ['count', 'recordCount'] },
        pass: { actions: ['count', 'recordCount', 'sendToOther'] },
        spawn: { actions: ['count', 'recordCount', 'spawnOther'] },
        boom: { actions: ['count', 'recordDiscarded', 'sendToOther', 'nap', 'throwError'] },
        wait: { target: 'napping', actions: 'nap' },
        rest: 'resting.lightly',
        end: 'over',
      },
    },
    napping: {
      on: {
        'deadline.nap': { target: 'awake', actions: ['count', 'recordCount'] },
        forget: { target: 'awake', actions: 'cancelNap' },
        wait: { actions: 'nap' },
      },
    },
    resting: {
      initial: 'lightly',
      states: { lightly: { on: { add: 'deeply' } }, deeply: { on: { add: '#tally.awake' } } },
    },
    over: { type: 'final', entry: 'recordEnd' },
  },
})

const isContext = (value: unknown): value is TallyContext =>
  typeof value === 'object' &&
  value !== null &&
  'name' in value &&
  'n' in value &&
  typeof value.n === 'number'

export const tallyCodec = createSnapshotCodec<TallyContext>({
  version: 2,
  states: { awake: 'a', napping: 'z', 'resting.lightly': 'rl', 'resting.deeply': 'rd', over: 'o' },
  schema: {
    check: (value) => (isContext(value) ? { ok: true, value } : { ok: false, error: '/n: must be a number' }),
    text: 'name:text n:number',
  },
  lifts: { 1: ({ s, c }) => ({ v: 2, s, c: { ...(c as object), n: (c as { count: number }).count } }) },
})

export const tallyKind = (supervision: Partial<Supervision> = {}): ActorKind => ({
  name: 'tally',
  logic: tallyMachine,
  codec: tallyCodec,
  supervision: {
    restartAfterMs: [1_000, 2_000, 4_000],
    crashesMax: 3,
    withinMs: 60_000,
    finally: 'closed',
    ...supervision,
  },
  impliedOutputs: (_key, restored) => [
    { is: 'effect', effect: { type: 'tally.counted', ...(restored.context as TallyContext) } },
  ],
})
