/**
 * The tracker poll machine decides when the host lists the tracker's tickets: after a change, and at regular intervals.
 *
 * Polls never overlap. `ticket-intake.ts` holds the tickets. The tracker connection pauses and resumes the polling,
 * because only it knows whether a tracker is configured and accepts the credential.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, kindName, restartOrFatal } from '../runtime/actor-kind.ts'

export const TRACKER_POLL = kindName<TrackerPollContext, TrackerPollEvent>('intake')

export interface TrackerPollContext {
  /** The tracker changed while a poll was running, so its listing may be outdated. */
  readonly isOutdated: boolean
  readonly pollMs: number
}

export type TrackerPollEvent =
  /** A tracker can be polled; it may be another one than before. */
  | { readonly type: 'resumed'; readonly pollMs: number }
  | { readonly type: 'paused' }
  | { readonly type: 'tracker changed' }
  /** The poll ended, also when it failed. */
  | { readonly type: 'poll finished' }
  /** The poll interval passed without a known change. */
  | { readonly type: 'interval passed' }

/**
 * Each effect replaces the previous one. The wait between polls is a timer and not a deadline, because setting the wall
 * clock must not prolong it.
 */
export type TrackerPollEffect =
  | { readonly type: 'intake.poll' }
  | { readonly type: 'intake.wait'; readonly ms: number }

const { recordEffect } = defineActions<TrackerPollContext, TrackerPollEvent, TrackerPollEffect>()

const pollFinished = {
  'poll finished': [{ guard: 'isOutdated', target: 'polling', reenter: true }, { target: 'waiting' }],
} as const

const transitionsOfAll = {
  resumed: { target: '#intake.polling', reenter: true, actions: 'setPollInterval' },
  paused: '#intake.idle',
} as const

export const trackerPollMachine = setup({
  types: {} as { context: TrackerPollContext; events: TrackerPollEvent },
  guards: { isOutdated: ({ context }) => context.isOutdated },
  actions: {
    poll: recordEffect(() => ({ type: 'intake.poll' })),
    setPollInterval: assign(({ event }) => (event.type === 'resumed' ? { pollMs: event.pollMs } : {})),
    markOutdated: assign({ isOutdated: true }),
    markCurrent: assign({ isOutdated: false }),
    wait: recordEffect(({ context }) => ({ type: 'intake.wait', ms: context.pollMs })),
  },
}).createMachine({
  id: 'intake',
  options: { maxIterations: 100 },
  context: { isOutdated: false, pollMs: 30_000 },
  initial: 'idle',
  on: transitionsOfAll,
  states: {
    idle: { description: 'no tracker is configured, or the tracker connection paused the polling' },
    polling: {
      description: 'the tickets of the tracker are being listed',
      entry: ['markCurrent', 'poll'],
      on: { 'tracker changed': { actions: 'markOutdated' }, ...pollFinished },
    },
    waiting: {
      description: 'the last listing is current; the next poll follows after the interval or a change',
      entry: 'wait',
      on: { 'tracker changed': 'polling', 'interval passed': 'polling' },
    },
  },
})

export const trackerPollKind: ActorKind = {
  name: TRACKER_POLL,
  singleton: true,
  logic: trackerPollMachine,
  supervision: restartOrFatal,
}
