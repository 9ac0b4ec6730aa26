/** A journey to the consent page and back: what becomes of it, whoever comes back and how often. */
import { type JourneyEvent, journeyMachine } from '../../../actors/accounts/oauth-redirect.machine.ts'
import type { Story } from '../trail.ts'
import { tell } from '../trail-tests.ts'

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
const BEGUN = 'start → awaiting : consent at 2026-01-01T00:10:00.000Z, memory at 2026-01-01T00:20:00.000Z'
const GONE = 'gone : connect.forget journey, over'

const stories: readonly Story<JourneyEvent>[] = [
  {
    title: 'the code is exchanged, the tokens are saved, and who comes back again hears that',
    input,
    events: [back, exchanged, saved, back],
    trail: [
      BEGUN,
      'came back → exchanging : connect.exchange',
      'exchanged → saving : connect.save journey',
      'saved → arrived : connect.say arrived, word=Ada',
      'came back → arrived : connect.say arrived before',
    ],
  },
  {
    title: 'a code is exchanged once, however often and with whatever somebody comes back meanwhile',
    input,
    events: [back, back, refused, exchanged, back, refused],
    trail: [
      BEGUN,
      'came back → exchanging : connect.exchange',
      'came back → exchanging',
      'came back → exchanging',
      'exchanged → saving : connect.save journey',
      'came back → saving',
      'came back → saving',
    ],
  },
  {
    title: 'a consent that was not given ends it; a code brought later is not exchanged',
    input,
    events: [refused, back],
    trail: [
      BEGUN,
      'came back → stranded : connect.say stranded (no consent), word=no consent',
      'came back → stranded : connect.say stranded (no consent)',
    ],
  },
  {
    title: 'a code that the tracker does not take ends it',
    input,
    events: [back, notExchanged],
    ends: 'not exchanged → stranded : connect.say stranded (bad code), word=bad code',
  },
  {
    title: 'so do tokens that do not work, or must not be saved',
    input,
    events: [back, exchanged, notSaved],
    ends: 'not saved → stranded : connect.say stranded (bad token), word=bad token',
  },
  {
    title: 'the consent takes too long',
    input,
    events: [late, back],
    ends: 'came back → stranded : connect.say stranded (the consent page was left open for too long; connect the tracker again)',
  },
  {
    title: 'what is being exchanged when the time is over is exchanged all the same',
    input,
    events: [back, late, exchanged],
    ends: 'exchanged → saving : connect.save journey',
  },
  {
    title: 'after a while it is forgotten how it ended',
    input,
    events: [back, exchanged, saved, forgotten],
    ends: `deadline.memory → ${GONE}`,
  },
  {
    title: 'one too many, it is forgotten at once',
    input,
    events: [crowdedOut],
    ends: `crowded out → ${GONE}`,
  },
  {
    title: 'a key given by hand meanwhile ends it',
    input,
    events: [superseded, back],
    ends: 'came back → stranded : connect.say stranded (changed)',
  },
  {
    title: 'and what it had connected is not said to be connected any more',
    input,
    events: [back, exchanged, saved, superseded],
    ends: 'superseded → stranded : connect.say stranded (changed), word=changed',
  },
]

tell(journeyMachine, stories)
