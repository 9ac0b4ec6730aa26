/**
 * Connecting the code host with a code that a person types in there, while the dashboard asks again and again.
 *
 * The code host is asked at its own pace: who asks sooner is told to wait, without a call, and all who wait while it is
 * being asked share that one call. The flow is remembered after its end, so that a second dashboard hears how it ended,
 * until a newer one takes its place. Device code and token lie in the room, never in here.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import type { ActorKind } from '../runtime/actor-kind.ts'
import { DEVICE_FLOW } from './connect.names.ts'
import { type FlowCrashed, reportCrash } from './crash-policy.ts'

export interface DeviceFlowContext {
  readonly flow: string
  readonly intervalMs: number
  /** On the clock that never goes back. */
  readonly nextPollAt: number
  /** The code ran out while the code host was being asked. */
  readonly hasExpired: boolean
  /** Whose account it is, or why there is none. */
  readonly outcome: string
}

export interface DeviceFlowInput {
  readonly flow: string
}

/** `now`: on the clock that never goes back. */
export type DeviceFlowEvent =
  | {
      readonly type: 'started'
      readonly now: number
      readonly intervalMs: number
      /** Wall milliseconds. */
      readonly expiresAt: number
    }
  | { readonly type: 'start failed' }
  | { readonly type: 'polled'; readonly handle: number; readonly now: number }
  /** `intervalMs`: it wants to be asked less often from now on. `isTooFast`: likewise, and does not say how often. */
  | { readonly type: 'still pending'; readonly intervalMs: number | null; readonly isTooFast: boolean }
  | { readonly type: 'unanswered' }
  | { readonly type: 'code rejected'; readonly reason: string }
  | { readonly type: 'token received' }
  | { readonly type: 'saved'; readonly detail: string }
  | { readonly type: 'save failed'; readonly reason: string }
  /** Somebody begins anew. */
  | { readonly type: 'replaced' }
  /** The credential was set or removed in another way since. */
  | { readonly type: 'superseded'; readonly reason: string }
  | { readonly type: 'deadline.expiry' }

/** `handle`: only that one is answered; null: everybody who waits. */
export type DeviceFlowEffect =
  | { readonly type: 'connect.start device flow'; readonly flow: string }
  | { readonly type: 'connect.report device start'; readonly flow: string }
  | { readonly type: 'connect.poll device'; readonly flow: string }
  | { readonly type: 'connect.save device token'; readonly flow: string }
  | { readonly type: 'connect.report pending'; readonly flow: string; readonly handle: number | null }
  | {
      readonly type: 'connect.report connected'
      readonly flow: string
      readonly handle: number | null
      readonly detail: string
    }
  | {
      readonly type: 'connect.report device failed'
      readonly flow: string
      readonly handle: number | null
      readonly reason: string
    }
  | { readonly type: 'connect.forget device flow'; readonly flow: string }
  | FlowCrashed

/** What the standard adds for a code host that was asked too often. */
const SLOW_DOWN_STEP_MS = 5_000
/** Somebody sits before it and waits. */
const POLL_FAILED_INTERVAL_MS_MAX = 30_000
const CODE_EXPIRED = 'the code was not entered in time; connect the code host again'

const { recordEffect, setDeadline, cancelDeadline, endActor } = defineActions<
  DeviceFlowContext,
  DeviceFlowEvent,
  DeviceFlowEffect
>()

const handleOf = (event: DeviceFlowEvent): number | null => (event.type === 'polled' ? event.handle : null)

const afterPoll = [
  { guard: 'hasExpired', target: 'failed', actions: ['setExpiredOutcome'] },
  { target: 'waiting', actions: ['widenInterval', 'reportPending'] },
] as const

/** Who asks in vain asks half as often, as the standard wants it. */
function intervalAfter(event: DeviceFlowEvent, before: number): number {
  if (event.type === 'unanswered') return Math.min(before * 2, POLL_FAILED_INTERVAL_MS_MAX)
  if (event.type !== 'still pending') return before
  return event.isTooFast ? before + SLOW_DOWN_STEP_MS : (event.intervalMs ?? before)
}

export const deviceFlowMachine = setup({
  types: {} as { context: DeviceFlowContext; events: DeviceFlowEvent; input: DeviceFlowInput },
  guards: {
    isDue: ({ context, event }) => event.type === 'polled' && event.now >= context.nextPollAt,
    hasExpired: ({ context }) => context.hasExpired,
  },
  actions: {
    startDeviceFlow: recordEffect(({ context }) => ({
      type: 'connect.start device flow',
      flow: context.flow,
    })),
    reportStart: recordEffect(({ context }) => ({ type: 'connect.report device start', flow: context.flow })),
    pollCodehost: recordEffect(({ context }) => ({ type: 'connect.poll device', flow: context.flow })),
    saveToken: recordEffect(({ context }) => ({ type: 'connect.save device token', flow: context.flow })),
    reportPending: recordEffect(({ context, event }) => ({
      type: 'connect.report pending',
      flow: context.flow,
      handle: handleOf(event),
    })),
    reportConnected: recordEffect(({ context, event }) => ({
      type: 'connect.report connected',
      flow: context.flow,
      handle: handleOf(event),
      detail: context.outcome,
    })),
    reportFailed: recordEffect(({ context, event }) => ({
      type: 'connect.report device failed',
      flow: context.flow,
      handle: handleOf(event),
      reason: context.outcome,
    })),
    forgetFlow: recordEffect(({ context }) => ({ type: 'connect.forget device flow', flow: context.flow })),
    setFirstPoll: assign(({ event }) =>
      event.type === 'started'
        ? { intervalMs: event.intervalMs, nextPollAt: event.now + event.intervalMs }
        : {},
    ),
    setExpiry: setDeadline(({ event }) => ({
      name: 'expiry',
      at: event.type === 'started' ? event.expiresAt : 0,
    })),
    cancelExpiry: cancelDeadline('expiry'),
    // From its beginning: a code host counts from one request to the next, not from its answer.
    setNextPoll: assign(({ context, event }) =>
      event.type === 'polled' ? { nextPollAt: event.now + context.intervalMs } : {},
    ),
    widenInterval: assign(({ context, event }) => {
      const { intervalMs: before, nextPollAt } = context
      const intervalMs = Math.max(before, intervalAfter(event, before))
      return { intervalMs, nextPollAt: nextPollAt + intervalMs - before }
    }),
    markExpired: assign({ hasExpired: true }),
    setExpiredOutcome: assign({ outcome: CODE_EXPIRED }),
    setFailureOutcome: assign(({ event }) => ('reason' in event ? { outcome: event.reason } : {})),
    setAccountOutcome: assign(({ event }) => (event.type === 'saved' ? { outcome: event.detail } : {})),
    end: endActor(),
  },
}).createMachine({
  id: DEVICE_FLOW,
  options: { maxIterations: 100 },
  context: ({ input }) => ({
    flow: input.flow,
    intervalMs: 0,
    nextPollAt: 0,
    hasExpired: false,
    outcome: '',
  }),
  initial: 'starting',
  on: { replaced: '.forgotten' },
  states: {
    starting: {
      description: 'the code host is being asked for a code',
      entry: 'startDeviceFlow',
      on: {
        started: { target: 'waiting', actions: ['setFirstPoll', 'setExpiry', 'reportStart'] },
        'start failed': { target: 'forgotten', actions: 'reportStart' },
        polled: { actions: 'reportPending' },
      },
    },
    waiting: {
      description: 'the person has the code; the code host is not asked before its interval has passed',
      on: {
        polled: [{ guard: 'isDue', target: 'polling', actions: 'setNextPoll' }, { actions: 'reportPending' }],
        'deadline.expiry': { target: 'failed', actions: 'setExpiredOutcome' },
        superseded: { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    polling: {
      description: 'the code host is being asked, once for all who wait',
      entry: 'pollCodehost',
      on: {
        'still pending': afterPoll,
        unanswered: afterPoll,
        'code rejected': { target: 'failed', actions: 'setFailureOutcome' },
        'token received': 'saving',
        'deadline.expiry': { actions: 'markExpired' },
        superseded: { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    saving: {
      description: 'the token is being checked and put on disk; whether it still may, the saving finds out',
      entry: ['cancelExpiry', 'saveToken'],
      on: {
        saved: { target: 'connected', actions: 'setAccountOutcome' },
        'save failed': { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    connected: {
      description: 'the token is on disk and works',
      entry: 'reportConnected',
      on: {
        polled: { actions: 'reportConnected' },
        superseded: { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    failed: {
      description: 'nothing comes of it any more; the person has to begin anew',
      entry: ['cancelExpiry', 'reportFailed'],
      on: { polled: { actions: 'reportFailed' } },
    },
    forgotten: { description: 'nobody asks for it any more', entry: ['forgetFlow', 'end'] },
  },
})

export const deviceFlowKind: ActorKind = {
  name: DEVICE_FLOW,
  logic: deviceFlowMachine,
  supervision: reportCrash,
  // It has nothing on disk, and its answers must not wait for one that is full.
  diskless: true,
}
