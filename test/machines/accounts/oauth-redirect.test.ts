/** A journey to the consent page and back: what becomes of it, whoever comes back and how often. */
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
    title: 'the code is exchanged, the tokens are saved, and who comes back again hears that',
    input,
    events: [callbackReceived, exchanged, saved, callbackReceived],
  },
  {
    title: 'a code is exchanged once, however often and with whatever somebody comes back meanwhile',
    input,
    events: [callbackReceived, callbackReceived, refused, exchanged, callbackReceived, refused],
  },
  {
    title: 'a consent that was not given ends it; a code brought later is not exchanged',
    input,
    events: [refused, callbackReceived],
  },
  {
    title: 'a code that the tracker does not take ends it',
    input,
    events: [callbackReceived, notExchanged],
    onlyLastLine: true,
  },
  {
    title: 'so do tokens that do not work, or must not be saved',
    input,
    events: [callbackReceived, exchanged, notSaved],
    onlyLastLine: true,
  },
  {
    title: 'the consent takes too long',
    input,
    events: [consentExpired, callbackReceived],
    onlyLastLine: true,
  },
  {
    title: 'what is being exchanged when the time is over is exchanged all the same',
    input,
    events: [callbackReceived, consentExpired, exchanged],
    onlyLastLine: true,
  },
  {
    title: 'after a while it is forgotten how it ended',
    input,
    events: [callbackReceived, exchanged, saved, memoryExpired],
    onlyLastLine: true,
  },
  {
    title: 'one too many, it is forgotten at once',
    input,
    events: [evicted],
    onlyLastLine: true,
  },
  {
    title: 'a key given by hand meanwhile ends it',
    input,
    events: [superseded, callbackReceived],
    onlyLastLine: true,
  },
  {
    title: 'and what it had connected is not said to be connected any more',
    input,
    events: [callbackReceived, exchanged, saved, superseded],
    onlyLastLine: true,
  },
]

testTrails(oauthRedirectMachine, stories)
