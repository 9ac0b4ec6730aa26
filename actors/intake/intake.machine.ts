/**
 * The intake: how tickets come in. It looks at the tracker when something may have changed there, and at least every
 * so often, one look at a time.
 *
 * The tickets themselves stay in the room beside it; the life knows how the tracker is doing.
 */
import { assign, setup } from 'xstate'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import { deeds } from '../kit/deeds.ts'
import { type Kind, restartedOrFatal } from '../kit/kind.ts'

export const INTAKE = 'intake'

export interface IntakeContext {
  readonly status: TrackerStatus
  /** Something changed while it was looking. */
  readonly touched: boolean
  readonly pollMs: number
}

export type IntakeEvent =
  /** There is a tracker, maybe another than before. */
  | { readonly type: 'configured'; readonly pollMs: number }
  | { readonly type: 'unconfigured' }
  | { readonly type: 'touched' }
  | { readonly type: 'seen'; readonly problem: string | null }
  /** It could not be looked at; that passes. */
  | { readonly type: 'not seen'; readonly problem: string }
  /** It could not, and a person is needed. */
  | { readonly type: 'shut out'; readonly problem: string }
  /** Nothing has changed for so long that it looks all the same. */
  | { readonly type: 'rested' }

/** Each takes the place of the one before. A rest is no deadline: it must not get longer when the wall clock is set. */
export type IntakeEffect =
  | { readonly type: 'intake.look' }
  | { readonly type: 'intake.rest'; readonly ms: number }

const { queue } = deeds<IntakeContext, IntakeEvent, IntakeEffect>()

const looked = {
  seen: [
    { guard: 'wasTouched', target: 'looking', reenter: true, actions: 'noteSeen' },
    { target: 'resting', actions: 'noteSeen' },
  ],
  'not seen': [
    { guard: 'wasTouched', target: 'looking', reenter: true, actions: 'noteTrouble' },
    { target: 'resting', actions: 'noteTrouble' },
  ],
  'shut out': { target: 'shut out', actions: 'noteShutOut' },
} as const

const always = {
  configured: { target: '#intake.looking', reenter: true, actions: 'noteConfigured' },
  unconfigured: { target: '#intake.disconnected', actions: 'noteDisconnected' },
} as const

export const intakeMachine = setup({
  types: {} as { context: IntakeContext; events: IntakeEvent },
  guards: { wasTouched: ({ context }) => context.touched },
  actions: {
    look: queue(() => ({ type: 'intake.look' })),
    noteConfigured: assign(({ event }) => (event.type === 'configured' ? { pollMs: event.pollMs } : {})),
    noteDisconnected: assign({ status: { state: 'disconnected' as const } }),
    noteTouch: assign({ touched: true }),
    forgetTouch: assign({ touched: false }),
    noteSeen: assign(({ event }) =>
      event.type === 'seen'
        ? {
            status: {
              state: 'connected' as const,
              ...(event.problem === null ? {} : { error: event.problem }),
            },
          }
        : {},
    ),
    noteTrouble: assign(({ event }) =>
      'problem' in event && event.problem !== null
        ? { status: { state: 'connected' as const, error: event.problem } }
        : {},
    ),
    noteShutOut: assign(({ event }) =>
      'problem' in event && event.problem !== null
        ? { status: { state: 'auth-error' as const, error: event.problem } }
        : {},
    ),
    rest: queue(({ context }) => ({ type: 'intake.rest', ms: context.pollMs })),
  },
}).createMachine({
  id: 'intake',
  options: { maxIterations: 100 },
  context: { status: { state: 'disconnected' }, touched: false, pollMs: 30_000 },
  initial: 'disconnected',
  on: always,
  states: {
    disconnected: { description: 'no tracker is configured' },
    looking: {
      description: 'reading what the tracker has',
      entry: ['forgetTouch', 'look'],
      on: { touched: { actions: 'noteTouch' }, ...looked },
    },
    resting: {
      description: 'the tickets are as they were when it looked last',
      entry: 'rest',
      on: { touched: 'looking', rested: 'looking' },
    },
    'shut out': {
      description: 'the tracker does not take our credential; a person has to connect it again',
    },
  },
})

export const intakeKind: Kind = { name: INTAKE, logic: intakeMachine, supervision: restartedOrFatal }
