/**
 * The gates that a ticket passes on its way to a worker, in the order in which people read them.
 *
 * `pass`: the gate is open. `wait`: it opens by itself. `stop`: a person must act. Every gate is judged, so a second
 * obstacle is visible at once.
 */
import Type, { type Static } from 'typebox'
import { Run, Ticket } from './run.ts'
import { record, stringEnum, Text } from './schema-helpers.ts'

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
  gates: Type.Array(Gate, {
    description: 'Every gate in order; empty for a run that is not queued, which waits for none.',
  }),
})
export type ExplainResponse = Static<typeof ExplainResponse>
