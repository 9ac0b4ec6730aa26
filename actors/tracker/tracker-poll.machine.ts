/**
 * The intake: how tickets come in. It looks at the tracker when something may have changed there, and at least every
 * so often, one look at a time.
 *
 * The tickets themselves stay in the room beside it. Whether there is a tracker to look at, and whether it takes our
 * credential, is the link's to say.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, restartOrFatal } from '../runtime/actor-kind.ts'

export const TRACKER_POLL = 'intake'

export interface TrackerPollContext {
  /** Something changed while it was looking. */
  readonly isOutdated: boolean
  readonly pollMs: number
}

export type TrackerPollEvent =
  /** There is a tracker to look at, maybe another than before. */
  | { readonly type: 'resumed'; readonly pollMs: number }
  | { readonly type: 'paused' }
  | { readonly type: 'touched' }
  /** It has been looked at, be it in vain. */
  | { readonly type: 'looked' }
  /** Nothing has changed for so long that it looks all the same. */
  | { readonly type: 'rested' }

/** Each takes the place of the one before. A rest is no deadline: it must not get longer when the wall clock is set. */
export type TrackerPollEffect =
  | { readonly type: 'intake.look' }
  | { readonly type: 'intake.rest'; readonly ms: number }

const { recordEffect } = defineActions<TrackerPollContext, TrackerPollEvent, TrackerPollEffect>()

const looked = {
  looked: [{ guard: 'wasTouched', target: 'looking', reenter: true }, { target: 'resting' }],
} as const

const always = {
  resumed: { target: '#intake.looking', reenter: true, actions: 'notePace' },
  paused: '#intake.idle',
} as const

export const trackerPollMachine = setup({
  types: {} as { context: TrackerPollContext; events: TrackerPollEvent },
  guards: { wasTouched: ({ context }) => context.isOutdated },
  actions: {
    look: recordEffect(() => ({ type: 'intake.look' })),
    notePace: assign(({ event }) => (event.type === 'resumed' ? { pollMs: event.pollMs } : {})),
    noteTouch: assign({ isOutdated: true }),
    forgetTouch: assign({ isOutdated: false }),
    rest: recordEffect(({ context }) => ({ type: 'intake.rest', ms: context.pollMs })),
  },
}).createMachine({
  id: 'intake',
  options: { maxIterations: 100 },
  context: { isOutdated: false, pollMs: 30_000 },
  initial: 'idle',
  on: always,
  states: {
    idle: { description: 'there is no tracker to look at, or it is not to be asked now' },
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

export const trackerPollKind: ActorKind = {
  name: TRACKER_POLL,
  logic: trackerPollMachine,
  supervision: restartOrFatal,
}
