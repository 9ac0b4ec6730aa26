/**
 * One journey of a person's browser: to the tracker's consent page and back to the callback.
 *
 * What it brings back is exchanged once. Whoever comes back a second time waits for the same end, or is told how it
 * was. Any number of journeys may be under way, and none knows of the others; which of them counts in the end is
 * decided where credentials are saved. State, verifier, code and tokens lie in the room, never in here.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import type { ActorKind } from '../runtime/actor-kind.ts'
import { OAUTH_REDIRECT } from './connect.names.ts'
import { type FlowCrashed, reportCrash } from './crash-policy.ts'

export interface OauthRedirectContext {
  readonly flow: string
  /** Wall milliseconds, both. */
  readonly consentUntil: number
  readonly keptUntil: number
  /** Whose account it is, or why there is none. */
  readonly outcome: string
}

export type OauthRedirectInput = Omit<OauthRedirectContext, 'outcome'>

export type OauthRedirectEvent =
  /** `refusal`: what the tracker said instead of giving a code. */
  | { readonly type: 'callback received'; readonly handle: number; readonly refusal: string | null }
  | { readonly type: 'exchanged' }
  | { readonly type: 'exchange failed'; readonly reason: string }
  | { readonly type: 'saved'; readonly detail: string }
  | { readonly type: 'save failed'; readonly reason: string }
  /** There are too many. */
  | { readonly type: 'evicted' }
  /** The credential was set or removed in another way since. */
  | { readonly type: 'superseded'; readonly reason: string }
  | { readonly type: 'deadline.consent' }
  | { readonly type: 'deadline.memory' }

/** `handle`: only that one is answered; null: everybody who waits. */
export type OauthRedirectEffect =
  | { readonly type: 'connect.exchange code'; readonly flow: string; readonly handle: number }
  | { readonly type: 'connect.save tracker tokens'; readonly flow: string }
  | { readonly type: 'connect.report redirect connected'; readonly flow: string; readonly detail: string }
  | {
      readonly type: 'connect.report redirect connected again'
      readonly flow: string
      readonly handle: number
      readonly detail: string
    }
  | {
      readonly type: 'connect.report redirect failed'
      readonly flow: string
      readonly handle: number | null
      readonly reason: string
    }
  | { readonly type: 'connect.forget redirect'; readonly flow: string }
  | FlowCrashed

const CONSENT_EXPIRED = 'the consent page was left open for too long; connect the tracker again'

const { recordEffect, setDeadline, endActor } = defineActions<
  OauthRedirectContext,
  OauthRedirectEvent,
  OauthRedirectEffect
>()

export const oauthRedirectMachine = setup({
  types: {} as { context: OauthRedirectContext; events: OauthRedirectEvent; input: OauthRedirectInput },
  guards: {
    isConsentRefused: ({ event }) => event.type === 'callback received' && event.refusal !== null,
  },
  actions: {
    setConsentDeadline: setDeadline(({ context }) => ({ name: 'consent', at: context.consentUntil })),
    setMemoryDeadline: setDeadline(({ context }) => ({ name: 'memory', at: context.keptUntil })),
    exchangeCode: recordEffect(({ context, event }) =>
      event.type === 'callback received'
        ? { type: 'connect.exchange code', flow: context.flow, handle: event.handle }
        : [],
    ),
    saveTokens: recordEffect(({ context }) => ({ type: 'connect.save tracker tokens', flow: context.flow })),
    reportConnected: recordEffect(({ context }) => ({
      type: 'connect.report redirect connected',
      flow: context.flow,
      detail: context.outcome,
    })),
    reportConnectedAgain: recordEffect(({ context, event }) =>
      event.type === 'callback received'
        ? {
            type: 'connect.report redirect connected again',
            flow: context.flow,
            handle: event.handle,
            detail: context.outcome,
          }
        : [],
    ),
    reportFailed: recordEffect(({ context }) => ({
      type: 'connect.report redirect failed',
      flow: context.flow,
      handle: null,
      reason: context.outcome,
    })),
    reportFailedAgain: recordEffect(({ context, event }) =>
      event.type === 'callback received'
        ? {
            type: 'connect.report redirect failed',
            flow: context.flow,
            handle: event.handle,
            reason: context.outcome,
          }
        : [],
    ),
    forgetRedirect: recordEffect(({ context }) => ({ type: 'connect.forget redirect', flow: context.flow })),
    setRefusalOutcome: assign(({ event }) =>
      event.type === 'callback received' && event.refusal !== null ? { outcome: event.refusal } : {},
    ),
    setFailureOutcome: assign(({ event }) => ('reason' in event ? { outcome: event.reason } : {})),
    setExpiredOutcome: assign({ outcome: CONSENT_EXPIRED }),
    setAccountOutcome: assign(({ event }) => (event.type === 'saved' ? { outcome: event.detail } : {})),
    end: endActor(),
  },
}).createMachine({
  id: OAUTH_REDIRECT,
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, outcome: '' }),
  initial: 'awaitingConsent',
  on: { evicted: '.forgotten', 'deadline.memory': '.forgotten' },
  states: {
    awaitingConsent: {
      description: 'the browser is at the consent page',
      entry: ['setConsentDeadline', 'setMemoryDeadline'],
      on: {
        'callback received': [
          { guard: 'isConsentRefused', target: 'failed', actions: 'setRefusalOutcome' },
          { target: 'exchanging', actions: 'exchangeCode' },
        ],
        'deadline.consent': { target: 'failed', actions: 'setExpiredOutcome' },
        superseded: { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    exchanging: {
      description: 'the code is being exchanged for tokens, once',
      on: {
        exchanged: 'saving',
        'exchange failed': { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    saving: {
      description:
        'the tokens are being checked and put on disk; whether they still may, the saving finds out',
      entry: 'saveTokens',
      on: {
        saved: { target: 'connected', actions: 'setAccountOutcome' },
        'save failed': { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    connected: {
      description: 'the tokens are on disk and work; who comes back again hears that',
      entry: 'reportConnected',
      on: {
        'callback received': { actions: 'reportConnectedAgain' },
        superseded: { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    failed: {
      description: 'nothing comes of it any more; who comes back hears why',
      entry: 'reportFailed',
      on: { 'callback received': { actions: 'reportFailedAgain' } },
    },
    forgotten: { description: 'its state is a stranger’s from now on', entry: ['forgetRedirect', 'end'] },
  },
})

export const oauthRedirectKind: ActorKind = {
  name: OAUTH_REDIRECT,
  logic: oauthRedirectMachine,
  supervision: reportCrash,
  // It has nothing on disk, and its answers must not wait for one that is full.
  diskless: true,
}
