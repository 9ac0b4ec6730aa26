/** The redirect flow machine, for all orders and repetitions of callbacks. */
import {
  type OauthRedirectEvent,
  oauthRedirectMachine,
} from '../../../actors/accounts/oauth-redirect.machine.ts'
import { LAST_LINE, trailTests } from '../trail-tests.ts'

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

trailTests<OauthRedirectEvent>(oauthRedirectMachine, input, [
  [
    'the code is exchanged, the tokens are saved, and a repeated callback receives the outcome',
    [callbackReceived, exchanged, saved, callbackReceived],
  ],
  [
    'a code is exchanged once, whatever callbacks arrive during the exchange',
    [callbackReceived, callbackReceived, refused, exchanged, callbackReceived, refused],
  ],
  ['a refused consent fails the flow, and a later code is not exchanged', [refused, callbackReceived]],
  ['a code that the tracker refuses fails the flow', [callbackReceived, notExchanged], LAST_LINE],
  [
    'tokens that do not work, or must not be saved, fail the flow',
    [callbackReceived, exchanged, notSaved],
    LAST_LINE,
  ],
  ['a consent that takes too long fails the flow', [consentExpired, callbackReceived], LAST_LINE],
  [
    'an exchange that is running when the consent expires is completed',
    [callbackReceived, consentExpired, exchanged],
    LAST_LINE,
  ],
  ['the outcome is forgotten after a while', [callbackReceived, exchanged, saved, memoryExpired], LAST_LINE],
  ['an evicted flow is forgotten at once', [evicted], LAST_LINE],
  ['a key given by hand fails the flow', [superseded, callbackReceived], LAST_LINE],
  [
    'a key given by hand changes the outcome of a connected flow',
    [callbackReceived, exchanged, saved, superseded],
    LAST_LINE,
  ],
])
