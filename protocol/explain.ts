/**
 * The gates that a ticket passes on its way to a worker, in the order in which people read them.
 *
 * `pass`: the gate is open. `wait`: it opens by itself. `stop`: a person must act. Every gate is judged, so a second
 * obstacle is visible at once.
 */
import Type, { type Static } from 'typebox'
import { TEXT_CHARS_MAX } from './limits.ts'
import { Run, Ticket } from './run.ts'
import { Count, Id, Name, record, stringEnum, Text, text } from './schema-helpers.ts'

export const GATE_IDS = [
  'tracker',
  'last poll',
  'eligible',
  'repository',
  'blockers',
  'duplicate',
  'policy',
  'workers',
  'capacity',
  'credential',
  'sandbox',
] as const
export type GateId = (typeof GATE_IDS)[number]

export const Gate = record('Gate', {
  id: stringEnum(GATE_IDS),
  status: stringEnum(['pass', 'wait', 'stop'], 'A waiting gate opens by itself; a stop needs a person.'),
  message: Text,
  cure: Type.Optional(Text),
})
export type Gate = Static<typeof Gate>

export const ExplainResponse = record('ExplainResponse', {
  ticket: Type.Optional(Ticket),
  run: Type.Optional(Run),
  reason: Type.Optional(text(TEXT_CHARS_MAX, 'Why the ticket has no run; absent when it has had one.')),
  gates: Type.Array(Gate, {
    description: 'Every gate in order; empty for a run that is not queued, which waits for none.',
  }),
})
export type ExplainResponse = Static<typeof ExplainResponse>

/** The scheduler's decision about a queued run: the worker it goes to next, or the reason why no worker takes it. */
export const Placement = record('Placement', {
  runId: Id,
  /** The worker that executes the run, or takes it now. */
  worker: Type.Optional(Id),
  /** Why the run waits, in one sentence; absent when it does not wait. */
  reason: Type.Optional(text(TEXT_CHARS_MAX)),
  workers: Type.Array(
    record('PlacementWorker', {
      id: Id,
      name: Name,
      free: Count,
      reason: Type.Optional(text(TEXT_CHARS_MAX, 'The first thing that excludes this worker.')),
    }),
  ),
})
export type Placement = Static<typeof Placement>
