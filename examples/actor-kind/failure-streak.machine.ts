/** The failure streak machine counts runs that failed in a row, and asks for a warning at the third. */
import { assign, setup } from 'xstate'
import { defineActions } from '../../actors/runtime/actions.ts'
import { type ActorKind, kindName, restartOrFatal } from '../../actors/runtime/actor-kind.ts'

export const FAILURE_STREAK = kindName<FailureStreakContext, FailureStreakEvent>('failure-streak')
const FAILURES_BEFORE_WARNING = 3

interface FailureStreakContext {
  readonly failures: number
}

export type FailureStreakEvent = { readonly type: 'run failed' } | { readonly type: 'run completed' }

export type FailureStreakEffect = { readonly type: 'failureStreak.warn'; readonly failures: number }

const { recordEffect } = defineActions<FailureStreakContext, FailureStreakEvent, FailureStreakEffect>()

const failureStreakMachine = setup({
  types: {} as { context: FailureStreakContext; events: FailureStreakEvent },
  guards: { isThird: ({ context }) => context.failures === FAILURES_BEFORE_WARNING - 1 },
  actions: {
    countFailure: assign({ failures: ({ context }) => context.failures + 1 }),
    reset: assign({ failures: 0 }),
    warn: recordEffect(() => ({ type: 'failureStreak.warn', failures: FAILURES_BEFORE_WARNING })),
  },
}).createMachine({
  id: FAILURE_STREAK,
  context: { failures: 0 },
  initial: 'counting',
  states: {
    counting: {
      description: 'fewer than three runs failed in a row',
      on: {
        'run failed': [
          { guard: 'isThird', target: 'warned', actions: ['countFailure', 'warn'] },
          { actions: 'countFailure' },
        ],
        'run completed': { actions: 'reset' },
      },
    },
    warned: {
      description: 'the warning was given; a completed run starts over',
      on: {
        'run failed': { actions: 'countFailure' },
        'run completed': { target: 'counting', actions: 'reset' },
      },
    },
  },
})

export const failureStreakKind: ActorKind = {
  name: FAILURE_STREAK,
  singleton: true,
  logic: failureStreakMachine,
  supervision: restartOrFatal,
}
