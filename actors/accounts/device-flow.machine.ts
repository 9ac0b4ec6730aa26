/**
 * The machine of a device flow: a person enters a code at the code host while the dashboard polls the service.
 *
 * The code host is polled at its own interval. An earlier dashboard poll is answered `pending` without a call, and
 * polls that arrive during a call share its result. The flow keeps its outcome until a newer flow replaces it, so every
 * dashboard can read it. DeviceFlowEffects holds the device code and the token; this context never does.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, kindName } from '../runtime/actor-kind.ts'
import { type FlowCrashed, reportCrash } from './crash-policy.ts'

/** Every flow has its own actor key. */
export const DEVICE_FLOW = kindName<DeviceFlowContext, DeviceFlowEvent, DeviceFlowInput>('device-flow')

export interface DeviceFlowContext {
  readonly flow: string
  readonly intervalMs: number
  /** Monotonic milliseconds. */
  readonly nextPollAt: number
  /** The code expired during a poll of the code host. */
  readonly hasExpired: boolean
  /** The connected account's name, or the reason of the failure. */
  readonly outcome: string
}

export interface DeviceFlowInput {
  readonly flow: string
}

/** `now` is in monotonic milliseconds. */
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
  /** `intervalMs`: the new interval that the code host asks for. `isTooFast`: it asks for a longer one without a value. */
  | { readonly type: 'still pending'; readonly intervalMs: number | null; readonly isTooFast: boolean }
  | { readonly type: 'unanswered' }
  | { readonly type: 'code rejected'; readonly reason: string }
  | { readonly type: 'token received' }
  | { readonly type: 'saved'; readonly detail: string }
  | { readonly type: 'save failed'; readonly reason: string }
  /** A person started a newer flow. */
  | { readonly type: 'replaced' }
  /** A later attempt set or removed the credential. */
  | { readonly type: 'superseded'; readonly reason: string }
  | { readonly type: 'deadline.expiry' }

/** `handle` names the one request to answer; null answers all pending requests. */
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

/** The increase of the interval after `slow_down` (RFC 8628 §3.5). */
const SLOW_DOWN_STEP_MS = 5_000
/** The longest interval after failed polls; kept short because a person is waiting. */
const POLL_FAILED_INTERVAL_MS_MAX = 30_000
export const CODE_EXPIRED = 'the code was not entered in time; connect the code host again'

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

/** Returns the next interval. A failed poll doubles it, as RFC 8628 §3.5 asks. */
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
    // Count from the start of the request, because the code host measures from request to request.
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
      description:
        'the person has the code; polls before the interval has passed are answered without a call',
      on: {
        polled: [{ guard: 'isDue', target: 'polling', actions: 'setNextPoll' }, { actions: 'reportPending' }],
        'deadline.expiry': { target: 'failed', actions: 'setExpiredOutcome' },
        superseded: { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    polling: {
      description: 'one request asks the code host for all pending polls',
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
      description: 'the token is being checked and saved; a superseded attempt fails here',
      entry: ['cancelExpiry', 'saveToken'],
      on: {
        saved: { target: 'connected', actions: 'setAccountOutcome' },
        'save failed': { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    connected: {
      description: 'the token was checked and is on disk',
      entry: 'reportConnected',
      on: {
        polled: { actions: 'reportConnected' },
        superseded: { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    failed: {
      description: 'the flow failed; the person has to start a new one',
      entry: ['cancelExpiry', 'reportFailed'],
      on: { polled: { actions: 'reportFailed' } },
    },
    forgotten: {
      description: 'a newer flow replaced this one, or the flow never started',
      entry: ['forgetFlow', 'end'],
    },
  },
})

export const deviceFlowKind: ActorKind = {
  name: DEVICE_FLOW,
  logic: deviceFlowMachine,
  supervision: reportCrash,
  // The actor stores nothing on disk, and a full disk must not delay its replies.
  diskless: true,
}
