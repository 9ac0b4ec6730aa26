/**
 * The machine of one OAuth redirect flow: the browser goes to the tracker's consent page and returns to the callback.
 *
 * The code is exchanged once. A second callback waits for the same result or receives the stored outcome. Several
 * redirect flows may run independently; CredentialWriter decides which one counts. OauthRedirects holds state,
 * verifier, code and tokens; this context never does.
 */
import { assign, setup } from 'xstate'
import { defineActions } from '../runtime/actions.ts'
import { type ActorKind, kindName } from '../runtime/actor-kind.ts'
import { type FlowCrashed, reportCrash } from './crash-policy.ts'

/** Every flow has its own actor key. */
export const OAUTH_REDIRECT = kindName<OauthRedirectContext, OauthRedirectEvent, OauthRedirectInput>(
  'journey',
)

export interface OauthRedirectContext {
  readonly flow: string
  /** Wall milliseconds, like `keptUntil`. */
  readonly consentUntil: number
  readonly keptUntil: number
  /** The connected account's name, or the reason of the failure. */
  readonly outcome: string
}

export type OauthRedirectInput = Omit<OauthRedirectContext, 'outcome'>

export type OauthRedirectEvent =
  /** `refusal`: the tracker's error when the callback holds no code. */
  | { readonly type: 'callback received'; readonly handle: number; readonly refusal: string | null }
  | { readonly type: 'exchanged' }
  | { readonly type: 'exchange failed'; readonly reason: string }
  | { readonly type: 'saved'; readonly detail: string }
  | { readonly type: 'save failed'; readonly reason: string }
  /** Too many redirect flows exist, and this one is the oldest. */
  | { readonly type: 'evicted' }
  /** A later attempt set or removed the credential. */
  | { readonly type: 'superseded'; readonly reason: string }
  | { readonly type: 'deadline.consent' }
  | { readonly type: 'deadline.memory' }

/** `handle` names the one request to answer; null answers all pending requests. */
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
      description: 'the tokens are being checked and saved; a superseded attempt fails here',
      entry: 'saveTokens',
      on: {
        saved: { target: 'connected', actions: 'setAccountOutcome' },
        'save failed': { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    connected: {
      description: 'the tokens were checked and are on disk; a repeated callback receives this outcome',
      entry: 'reportConnected',
      on: {
        'callback received': { actions: 'reportConnectedAgain' },
        superseded: { target: 'failed', actions: 'setFailureOutcome' },
      },
    },
    failed: {
      description: 'the flow failed; a repeated callback receives the reason',
      entry: 'reportFailed',
      on: { 'callback received': { actions: 'reportFailedAgain' } },
    },
    forgotten: {
      description: 'the service no longer knows the state parameter of this flow',
      entry: ['forgetRedirect', 'end'],
    },
  },
})

export const oauthRedirectKind: ActorKind = {
  name: OAUTH_REDIRECT,
  logic: oauthRedirectMachine,
  supervision: reportCrash,
  // The actor stores nothing on disk, and a full disk must not delay its replies.
  diskless: true,
}
