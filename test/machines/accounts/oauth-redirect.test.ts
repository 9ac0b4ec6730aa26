/** The redirect flow machine, for all orders and repetitions of callbacks. */
import {
  type OauthRedirectEvent,
  oauthRedirectMachine,
} from '../../../actors/accounts/oauth-redirect.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const T0 = Date.UTC(2026, 0, 1)

const callbackReceived: OauthRedirectEvent = { type: 'callback received', handle: 1, refusal: null }
const refused: OauthRedirectEvent = { type: 'callback received', handle: 2, refusal: 'no consent' }
const exchanged: OauthRedirectEvent = { type: 'exchanged' }
const notExchanged: OauthRedirectEvent = { type: 'exchange failed', reason: 'bad code' }
const saved: OauthRedirectEvent = { type: 'saved', detail: 'Ada' }
const notSaved: OauthRedirectEvent = { type: 'save failed', reason: 'bad token' }
const evicted: OauthRedirectEvent = { type: 'evicted' }
const superseded: OauthRedirectEvent = { type: 'superseded', reason: 'changed' }
const consentExpired: OauthRedirectEvent = { type: 'deadline.consent' }
const memoryExpired: OauthRedirectEvent = { type: 'deadline.memory' }

const input = { flow: 'journey-1', consentUntil: T0 + 600_000, keptUntil: T0 + 1_200_000 }

const stories: readonly Story<OauthRedirectEvent>[] = [
  {
    title: 'the code is exchanged, the tokens are saved, and a repeated callback receives the outcome',
    input,
    events: [callbackReceived, exchanged, saved, callbackReceived],
  },
  {
    title: 'a code is exchanged once, whatever callbacks arrive during the exchange',
    input,
    events: [callbackReceived, callbackReceived, refused, exchanged, callbackReceived, refused],
  },
  {
    title: 'a refused consent fails the flow, and a later code is not exchanged',
    input,
    events: [refused, callbackReceived],
  },
  {
    title: 'a code that the tracker refuses fails the flow',
    input,
    events: [callbackReceived, notExchanged],
    onlyLastLine: true,
  },
  {
    title: 'tokens that do not work, or must not be saved, fail the flow',
    input,
    events: [callbackReceived, exchanged, notSaved],
    onlyLastLine: true,
  },
  {
    title: 'a consent that takes too long fails the flow',
    input,
    events: [consentExpired, callbackReceived],
    onlyLastLine: true,
  },
  {
    title: 'an exchange that is running when the consent expires is completed',
    input,
    events: [callbackReceived, consentExpired, exchanged],
    onlyLastLine: true,
  },
  {
    title: 'the outcome is forgotten after a while',
    input,
    events: [callbackReceived, exchanged, saved, memoryExpired],
    onlyLastLine: true,
  },
  {
    title: 'an evicted flow is forgotten at once',
    input,
    events: [evicted],
    onlyLastLine: true,
  },
  {
    title: 'a key given by hand fails the flow',
    input,
    events: [superseded, callbackReceived],
    onlyLastLine: true,
  },
  {
    title: 'a key given by hand changes the outcome of a connected flow',
    input,
    events: [callbackReceived, exchanged, saved, superseded],
    onlyLastLine: true,
  },
]

testTrails(oauthRedirectMachine, stories)
