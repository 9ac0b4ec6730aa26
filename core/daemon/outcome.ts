/**
 * What a worker tells of an execution's end.
 *
 * An execution that was stopped may still have said how far it came; what it did not say is taken from what was noted
 * on the way. Work that is out (a pull request is open) is never told as lost: the run is done then, whatever happened
 * to its worker afterwards. A run that somebody cancelled is cancelled, and keeps what it brought about.
 */

import type { ExecutionFields } from '../../protocol/actor-snapshots.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import { disclaimInterruption } from '../run/interruption.ts'
import { truncate } from '../safe-text.ts'

type ExecutionFacts = Pick<ExecutionFields, 'progress' | 'costs' | 'stop'>

/** `said`: what the execution itself answered, if it got so far. */
export function deriveOutcome(known: ExecutionFacts, reported: RunOutcome | null): RunOutcome {
  const whole = fillFromProgress(known, reported ?? failedOutcome('the execution ended without saying how'))
  if (known.stop === null) return disclaimInterruption(whole)
  if (known.stop.as === 'cancelled') return { ...withoutError(whole), status: 'cancelled' }
  return reported?.status === 'completed' ? whole : interruptedOutcome(known, whole, known.stop.reason)
}

/** `error` is one sentence. */
export const failedOutcome = (error: string): RunOutcome => ({
  status: 'failed',
  error: truncate(error, TEXT_CHARS_MAX),
  costs: [],
})

function interruptedOutcome({ progress }: ExecutionFacts, whole: RunOutcome, reason: string): RunOutcome {
  const { prUrl, branch } = progress
  if (prUrl === undefined) return { ...whole, status: 'failed', error: truncate(reason, TEXT_CHARS_MAX) }
  const result = { prUrl, ...(branch === undefined ? {} : { branch }), artifacts: [] }
  return { ...withoutError(whole), status: 'completed', result: whole.result ?? result }
}

function fillFromProgress({ progress, costs }: ExecutionFacts, reported: RunOutcome): RunOutcome {
  const { sandbox, agentSessionId, prUrl, prState } = progress
  return {
    ...(sandbox === undefined ? {} : { sandbox }),
    ...(agentSessionId === undefined ? {} : { agentSessionId }),
    ...(prUrl === undefined ? {} : { prUrl }),
    ...(prState === undefined ? {} : { prState }),
    ...reported,
    costs: reported.costs.length > 0 ? reported.costs : [...costs],
  }
}

function withoutError({ error: _, ...rest }: RunOutcome): RunOutcome {
  return rest
}
