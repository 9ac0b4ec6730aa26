/** An inspected event names the guards that its machine asked, and whether a transition took it. */
import { expect, test } from '@jest/globals'
import { createActor, setup } from 'xstate'
import { judgeEvent } from '../../../actors/inspection/actor-recorder.ts'

const machine = setup({
  types: {} as { context: { count: number }; events: { type: 'add' | 'end' | 'reset' | 'unknown' } },
  guards: { isEmpty: ({ context }) => context.count === 0, isFull: ({ context }) => context.count > 9 },
}).createMachine({
  context: { count: 5 },
  initial: 'open',
  on: { add: { guard: 'isEmpty', actions: [] }, end: { guard: 'isEmpty', target: '.over' }, reset: {} },
  states: {
    open: {
      initial: 'wide',
      states: {
        wide: { on: { add: [{ guard: 'isFull', target: 'narrow' }, { target: 'narrow' }] } },
        narrow: {},
      },
      on: { end: { guard: 'isFull', target: 'over' } },
    },
    over: {},
  },
})

test.each([
  ['the last transition takes what the guards before it refuse', 'add', false, [['isFull', false]]],
  [
    'guards of outer states are asked after those of inner ones',
    'end',
    true,
    [
      ['isFull', false],
      ['isEmpty', false],
    ],
  ],
  ['a transition without a guard asks none', 'reset', false, []],
  ['an event without a transition asks none', 'unknown', true, []],
] as const)('%s', (_, type, isIgnored, guards) => {
  const verdict = judgeEvent(createActor(machine).start().getSnapshot(), { type })
  expect([verdict.isIgnored, verdict.guards.map(({ name, holds }) => [name, holds])]).toEqual([
    isIgnored,
    guards,
  ])
})

test('a guard that holds is named last', () => {
  const state = createActor(machine).start().getSnapshot()
  const verdict = judgeEvent({ ...state, context: { count: 0 } }, { type: 'end' })
  expect(verdict).toEqual({
    isIgnored: false,
    guards: [
      { name: 'isFull', holds: false },
      { name: 'isEmpty', holds: true },
    ],
  })
})
