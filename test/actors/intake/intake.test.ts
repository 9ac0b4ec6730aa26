/** How the intake looks at a tracker: one look at a time, and none is forgotten. */
import { type IntakeEvent, intakeMachine } from '../../../actors/intake/intake.machine.ts'
import { tell } from '../stories.ts'
import type { Story } from '../trail.ts'

const configured: IntakeEvent = { type: 'configured', pollMs: 30_000 }
const unconfigured: IntakeEvent = { type: 'unconfigured' }
const touched: IntakeEvent = { type: 'touched' }
const seen: IntakeEvent = { type: 'seen', problem: null }
const partly: IntakeEvent = { type: 'seen', problem: 'ENG-3 could not be read' }
const unseen: IntakeEvent = { type: 'not seen', problem: 'the tracker did not answer' }
const shut: IntakeEvent = { type: 'shut out', problem: 'the token is not valid' }
const rested: IntakeEvent = { type: 'rested' }

const input = undefined
const stories: readonly Story<IntakeEvent>[] = [
  {
    title: 'a tracker is looked at when it is configured, and again after a while',
    input,
    events: [configured, seen, rested, seen],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look',
      'seen → resting : intake.rest, state=connected',
      'rested → looking : intake.look',
      'seen → resting : intake.rest',
    ],
  },
  {
    title: 'something changed: it looks at once',
    input,
    events: [configured, seen, touched, seen],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look',
      'seen → resting : intake.rest, state=connected',
      'touched → looking : intake.look',
      'seen → resting : intake.rest',
    ],
  },
  {
    title: 'something changed while it was looking: it looks again',
    input,
    events: [configured, touched, touched, seen, seen],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look',
      'touched → looking : touched=true',
      'touched → looking',
      'seen → looking : intake.look, state=connected, touched=false',
      'seen → resting : intake.rest',
    ],
  },
  {
    title: 'what could not be read of it is said, the rest is right',
    input,
    events: [configured, partly],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look',
      'seen → resting : intake.rest, state=connected, error=ENG-3 could not be read',
    ],
  },
  {
    title: 'a tracker that does not answer is looked at again later',
    input,
    events: [configured, unseen, rested, seen],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look',
      'not seen → resting : intake.rest, state=connected, error=the tracker did not answer',
      'rested → looking : intake.look',
      'seen → resting : intake.rest, error forgotten',
    ],
  },
  {
    title: 'touched while it could not be looked at, it is looked at again at once',
    input,
    events: [configured, touched, unseen],
    ends: 'not seen → looking : intake.look, state=connected, error=the tracker did not answer, touched=false',
  },
  {
    title: 'one that does not take the credential waits for a person',
    input,
    events: [configured, shut, touched, configured, seen],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look',
      'shut out → shut out : state=auth-error, error=the token is not valid',
      'touched → shut out',
      'configured → looking : intake.look',
      'seen → resting : intake.rest, state=connected, error forgotten',
    ],
  },
  {
    title: 'another tracker is looked at at once',
    input,
    events: [configured, configured, seen, configured],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look',
      'configured → looking : intake.look',
      'seen → resting : intake.rest, state=connected',
      'configured → looking : intake.look',
    ],
  },
  {
    title: 'no tracker any more: nothing is looked at',
    input,
    events: [configured, seen, unconfigured, touched, unconfigured],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look',
      'seen → resting : intake.rest, state=connected',
      'unconfigured → disconnected : state=disconnected',
      'touched → disconnected',
      'unconfigured → disconnected',
    ],
  },
]

tell(intakeMachine, stories)
