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
import { type ConnectCrashed, closedWithWord } from './crash-policy.ts'

export interface DeviceFlowContext {
  readonly flow: string
  readonly intervalMs: number
  /** On the clock that never goes back. */
  readonly askAgainAt: number
  /** The code ran out while the code host was being asked. */
  readonly isLate: boolean
  /** Whose account it is, or why there is none. */
  readonly word: string
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
  | { readonly type: 'not started' }
  | { readonly type: 'polled'; readonly handle: number; readonly now: number }
  /** `intervalMs`: it wants to be asked less often from now on. `isTooFast`: likewise, and does not say how often. */
  | { readonly type: 'still pending'; readonly intervalMs: number | null; readonly isTooFast: boolean }
  | { readonly type: 'unanswered' }
  | { readonly type: 'code died'; readonly reason: string }
  | { readonly type: 'token came' }
  | { readonly type: 'saved'; readonly detail: string }
  | { readonly type: 'not saved'; readonly reason: string }
  /** Somebody begins anew. */
  | { readonly type: 'replaced' }
  /** The credential was set or removed in another way since. */
  | { readonly type: 'superseded'; readonly reason: string }
  | { readonly type: 'deadline.expiry' }

/** `handle`: only that one is answered; null: everybody who waits. */
export type DeviceFlowEffect =
  | { readonly type: 'connect.start device'; readonly flow: string }
  | { readonly type: 'connect.show device'; readonly flow: string }
  | { readonly type: 'connect.ask device'; readonly flow: string }
  | { readonly type: 'connect.save device'; readonly flow: string }
  | { readonly type: 'connect.say pending'; readonly flow: string; readonly handle: number | null }
  | {
      readonly type: 'connect.say connected'
      readonly flow: string
      readonly handle: number | null
      readonly detail: string
    }
  | {
      readonly type: 'connect.say over'
      readonly flow: string
      readonly handle: number | null
      readonly reason: string
    }
  | { readonly type: 'connect.forget device'; readonly flow: string }
  | ConnectCrashed

/** What the standard adds for a code host that was asked too often. */
const STEP_MS = 5_000
/** Somebody sits before it and waits. */
const UNANSWERED_MS_MAX = 30_000
const EXPIRED = 'the code was not entered in time; connect the code host again'

const { recordEffect, setDeadline, cancelDeadline, endActor } = defineActions<
  DeviceFlowContext,
  DeviceFlowEvent,
  DeviceFlowEffect
>()

const handleOf = (event: DeviceFlowEvent): number | null => (event.type === 'polled' ? event.handle : null)

const askedInVain = [
  { guard: 'isLate', target: 'over', actions: ['noteExpiry'] },
  { target: 'waiting', actions: ['noteInterval', 'sayPending'] },
] as const

/** Who asks in vain asks half as often, as the standard wants it. */
function intervalAfter(event: DeviceFlowEvent, before: number): number {
  if (event.type === 'unanswered') return Math.min(before * 2, UNANSWERED_MS_MAX)
  if (event.type !== 'still pending') return before
  return event.isTooFast ? before + STEP_MS : (event.intervalMs ?? before)
}

export const deviceFlowMachine = setup({
  types: {} as { context: DeviceFlowContext; events: DeviceFlowEvent; input: DeviceFlowInput },
  guards: {
    isDue: ({ context, event }) => event.type === 'polled' && event.now >= context.askAgainAt,
    isLate: ({ context }) => context.isLate,
  },
  actions: {
    start: recordEffect(({ context }) => ({ type: 'connect.start device', flow: context.flow })),
    show: recordEffect(({ context }) => ({ type: 'connect.show device', flow: context.flow })),
    ask: recordEffect(({ context }) => ({ type: 'connect.ask device', flow: context.flow })),
    save: recordEffect(({ context }) => ({ type: 'connect.save device', flow: context.flow })),
    sayPending: recordEffect(({ context, event }) => ({
      type: 'connect.say pending',
      flow: context.flow,
      handle: handleOf(event),
    })),
    sayConnected: recordEffect(({ context, event }) => ({
      type: 'connect.say connected',
      flow: context.flow,
      handle: handleOf(event),
      detail: context.word,
    })),
    sayOver: recordEffect(({ context, event }) => ({
      type: 'connect.say over',
      flow: context.flow,
      handle: handleOf(event),
      reason: context.word,
    })),
    forget: recordEffect(({ context }) => ({ type: 'connect.forget device', flow: context.flow })),
    noteStart: assign(({ event }) =>
      event.type === 'started'
        ? { intervalMs: event.intervalMs, askAgainAt: event.now + event.intervalMs }
        : {},
    ),
    expireInTime: setDeadline(({ event }) => ({
      name: 'expiry',
      at: event.type === 'started' ? event.expiresAt : 0,
    })),
    expireNoMore: cancelDeadline('expiry'),
    // From its beginning: a code host counts from one request to the next, not from its answer.
    noteAsked: assign(({ context, event }) =>
      event.type === 'polled' ? { askAgainAt: event.now + context.intervalMs } : {},
    ),
    noteInterval: assign(({ context, event }) => {
      const { intervalMs: before, askAgainAt } = context
      const intervalMs = Math.max(before, intervalAfter(event, before))
      return { intervalMs, askAgainAt: askAgainAt + intervalMs - before }
    }),
    noteLate: assign({ isLate: true }),
    noteExpiry: assign({ word: EXPIRED }),
    noteReason: assign(({ event }) => ('reason' in event ? { word: event.reason } : {})),
    noteAccount: assign(({ event }) => (event.type === 'saved' ? { word: event.detail } : {})),
    end: endActor(),
  },
}).createMachine({
  id: DEVICE_FLOW,
  options: { maxIterations: 100 },
  context: ({ input }) => ({ flow: input.flow, intervalMs: 0, askAgainAt: 0, isLate: false, word: '' }),
  initial: 'starting',
  on: { replaced: '.gone' },
  states: {
    starting: {
      description: 'the code host is being asked for a code',
      entry: 'start',
      on: {
        started: { target: 'waiting', actions: ['noteStart', 'expireInTime', 'show'] },
        'not started': { target: 'gone', actions: 'show' },
        polled: { actions: 'sayPending' },
      },
    },
    waiting: {
      description: 'the person has the code; the code host is not asked before its interval has passed',
      on: {
        polled: [{ guard: 'isDue', target: 'asking', actions: 'noteAsked' }, { actions: 'sayPending' }],
        'deadline.expiry': { target: 'over', actions: 'noteExpiry' },
        superseded: { target: 'over', actions: 'noteReason' },
      },
    },
    asking: {
      description: 'the code host is being asked, once for all who wait',
      entry: 'ask',
      on: {
        'still pending': askedInVain,
        unanswered: askedInVain,
        'code died': { target: 'over', actions: 'noteReason' },
        'token came': 'saving',
        'deadline.expiry': { actions: 'noteLate' },
        superseded: { target: 'over', actions: 'noteReason' },
      },
    },
    saving: {
      description: 'the token is being checked and put on disk; whether it still may, the saving finds out',
      entry: ['expireNoMore', 'save'],
      on: {
        saved: { target: 'connected', actions: 'noteAccount' },
        'not saved': { target: 'over', actions: 'noteReason' },
      },
    },
    connected: {
      description: 'the token is on disk and works',
      entry: 'sayConnected',
      on: {
        polled: { actions: 'sayConnected' },
        superseded: { target: 'over', actions: 'noteReason' },
      },
    },
    over: {
      description: 'nothing comes of it any more; the person has to begin anew',
      entry: ['expireNoMore', 'sayOver'],
      on: { polled: { actions: 'sayOver' } },
    },
    gone: { description: 'nobody asks for it any more', entry: ['forget', 'end'] },
  },
})

export const deviceFlowKind: ActorKind = {
  name: DEVICE_FLOW,
  logic: deviceFlowMachine,
  supervision: closedWithWord,
  // It has nothing on disk, and its answers must not wait for one that is full.
  diskless: true,
}
