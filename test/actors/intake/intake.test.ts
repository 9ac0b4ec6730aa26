/** How the intake looks at a tracker: one look at a time, and none is forgotten. */
import { type IntakeEvent, intakeMachine } from '../../../actors/intake/intake.machine.ts'
import { tell } from '../stories.ts'
import type { Story } from '../trail.ts'

const at = Date.UTC(2026, 2, 1, 8)
const configured: IntakeEvent = { type: 'configured', pollMs: 30_000, at }
const unconfigured: IntakeEvent = { type: 'unconfigured' }
const touched: IntakeEvent = { type: 'touched' }
const seen: IntakeEvent = { type: 'seen', at: at + 1_000, problem: null }
const partly: IntakeEvent = { type: 'seen', at: at + 1_000, problem: 'ENG-3 could not be read' }
const unseen: IntakeEvent = { type: 'not seen', at: at + 1_000, problem: 'the tracker did not answer' }
const shut: IntakeEvent = { type: 'shut out', at: at + 1_000, problem: 'the token is not valid' }
const poll: IntakeEvent = { type: 'deadline.poll' }

const input = undefined
const stories: readonly Story<IntakeEvent>[] = [
  {
    title: 'a tracker is looked at when it is configured, and again after a while',
    input,
    events: [configured, seen, poll, seen],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look, at=1772352000000',
      'seen → resting : poll at 2026-03-01T08:00:31.000Z, state=connected, at=1772352001000',
      'deadline.poll → looking : intake.look, no poll',
      'seen → resting : poll at 2026-03-01T08:00:31.000Z',
    ],
  },
  {
    title: 'something changed: it looks at once',
    input,
    events: [configured, seen, touched, seen],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look, at=1772352000000',
      'seen → resting : poll at 2026-03-01T08:00:31.000Z, state=connected, at=1772352001000',
      'touched → looking : intake.look, no poll',
      'seen → resting : poll at 2026-03-01T08:00:31.000Z',
    ],
  },
  {
    title: 'something changed while it was looking: it looks again',
    input,
    events: [configured, touched, touched, seen, seen],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look, at=1772352000000',
      'touched → looking : touched=true',
      'touched → looking',
      'seen → looking : intake.look, state=connected, touched=false, at=1772352001000',
      'seen → resting : poll at 2026-03-01T08:00:31.000Z',
    ],
  },
  {
    title: 'what could not be read of it is said, the rest is right',
    input,
    events: [configured, partly],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look, at=1772352000000',
      'seen → resting : poll at 2026-03-01T08:00:31.000Z, state=connected, error=ENG-3 could not be read, at=1772352001000',
    ],
  },
  {
    title: 'a tracker that does not answer is looked at again later',
    input,
    events: [configured, unseen, poll, seen],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look, at=1772352000000',
      'not seen → resting : poll at 2026-03-01T08:00:31.000Z, state=connected, error=the tracker did not answer, at=1772352001000',
      'deadline.poll → looking : intake.look, no poll',
      'seen → resting : poll at 2026-03-01T08:00:31.000Z, error forgotten',
    ],
  },
  {
    title: 'touched while it could not be looked at, it is looked at again at once',
    input,
    events: [configured, touched, unseen],
    ends: 'not seen → looking : intake.look, state=connected, error=the tracker did not answer, touched=false, at=1772352001000',
  },
  {
    title: 'one that does not take the credential waits for a person',
    input,
    events: [configured, shut, touched, configured, seen],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look, at=1772352000000',
      'shut out → shut out : state=auth-error, error=the token is not valid, at=1772352001000',
      'touched → shut out',
      'configured → looking : intake.look, at=1772352000000',
      'seen → resting : poll at 2026-03-01T08:00:31.000Z, state=connected, error forgotten, at=1772352001000',
    ],
  },
  {
    title: 'another tracker is looked at at once',
    input,
    events: [configured, configured, seen, configured],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look, at=1772352000000',
      'configured → looking : intake.look',
      'seen → resting : poll at 2026-03-01T08:00:31.000Z, state=connected, at=1772352001000',
      'configured → looking : intake.look, no poll, at=1772352000000',
    ],
  },
  {
    title: 'no tracker any more: nothing is looked at',
    input,
    events: [configured, seen, unconfigured, touched, unconfigured],
    trail: [
      'start → disconnected',
      'configured → looking : intake.look, at=1772352000000',
      'seen → resting : poll at 2026-03-01T08:00:31.000Z, state=connected, at=1772352001000',
      'unconfigured → disconnected : no poll, state=disconnected',
      'touched → disconnected',
      'unconfigured → disconnected',
    ],
  },
]

tell(intakeMachine, stories)
