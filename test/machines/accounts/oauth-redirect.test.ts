/** A journey to the consent page and back: what becomes of it, whoever comes back and how often. */
import { type JourneyEvent, journeyMachine } from '../../../actors/accounts/oauth-redirect.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const T0 = Date.UTC(2026, 0, 1)

const back: JourneyEvent = { type: 'came back', handle: 1, refusal: null }
const refused: JourneyEvent = { type: 'came back', handle: 2, refusal: 'no consent' }
const exchanged: JourneyEvent = { type: 'exchanged' }
const notExchanged: JourneyEvent = { type: 'not exchanged', reason: 'bad code' }
const saved: JourneyEvent = { type: 'saved', detail: 'Ada' }
const notSaved: JourneyEvent = { type: 'not saved', reason: 'bad token' }
const crowdedOut: JourneyEvent = { type: 'crowded out' }
const superseded: JourneyEvent = { type: 'superseded', reason: 'changed' }
const late: JourneyEvent = { type: 'deadline.consent' }
const forgotten: JourneyEvent = { type: 'deadline.memory' }

const input = { flow: 'journey-1', consentUntil: T0 + 600_000, keptUntil: T0 + 1_200_000 }

const stories: readonly Story<JourneyEvent>[] = [
  {
    title: 'the code is exchanged, the tokens are saved, and who comes back again hears that',
    input,
    events: [back, exchanged, saved, back],
  },
  {
    title: 'a code is exchanged once, however often and with whatever somebody comes back meanwhile',
    input,
    events: [back, back, refused, exchanged, back, refused],
  },
  {
    title: 'a consent that was not given ends it; a code brought later is not exchanged',
    input,
    events: [refused, back],
  },
  {
    title: 'a code that the tracker does not take ends it',
    input,
    events: [back, notExchanged],
    onlyLastLine: true,
  },
  {
    title: 'so do tokens that do not work, or must not be saved',
    input,
    events: [back, exchanged, notSaved],
    onlyLastLine: true,
  },
  {
    title: 'the consent takes too long',
    input,
    events: [late, back],
    onlyLastLine: true,
  },
  {
    title: 'what is being exchanged when the time is over is exchanged all the same',
    input,
    events: [back, late, exchanged],
    onlyLastLine: true,
  },
  {
    title: 'after a while it is forgotten how it ended',
    input,
    events: [back, exchanged, saved, forgotten],
    onlyLastLine: true,
  },
  {
    title: 'one too many, it is forgotten at once',
    input,
    events: [crowdedOut],
    onlyLastLine: true,
  },
  {
    title: 'a key given by hand meanwhile ends it',
    input,
    events: [superseded, back],
    onlyLastLine: true,
  },
  {
    title: 'and what it had connected is not said to be connected any more',
    input,
    events: [back, exchanged, saved, superseded],
    onlyLastLine: true,
  },
]

testTrails(journeyMachine, stories)
