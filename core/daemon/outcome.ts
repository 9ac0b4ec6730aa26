/**
 * Derives the outcome that a worker reports when an execution ends, and joins the requests to stop one.
 *
 * A stopped execution may have reported an outcome itself; missing facts come from the recorded progress. An open
 * pull request means that the run is completed, whatever happened to its worker afterwards. Finished work that is not
 * published waits to be published. A run that a person cancelled is cancelled, and keeps its results. A run whose agent
 * did not begin is given back.
 */
import type { ExecutionFields } from '../../protocol/actor-snapshots.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import { disclaimInterruption, withoutInterruption } from '../run/interruption.ts'
import { truncate } from '../safe-text.ts'
import type { StopRequest } from './ports.ts'

type ExecutionFacts = Pick<ExecutionFields, 'begun' | 'progress' | 'costs' | 'stop'>

/** `reported`: the outcome that the execution itself returned, if there is one. */
export function deriveOutcome(known: ExecutionFacts, reported: RunOutcome | null): RunOutcome {
  const whole = fillFromProgress(known, reported ?? failedOutcome('the execution ended without saying how'))
  if (known.stop === null) return disclaimInterruption(whole)
  if (known.stop.as === 'cancelled') return { ...withoutError(whole), status: 'cancelled' }
  if (reported?.status === 'completed') return whole
  return isUnbegun(known)
    ? unbegunOutcome(known.stop.reason)
    : interruptedOutcome(known, whole, known.stop.reason)
}

/** `error` is one sentence. */
export const failedOutcome = (error: string): RunOutcome => ({
  status: 'failed',
  error: truncate(error, TEXT_CHARS_MAX),
  costs: [],
})

const isUnbegun = ({ begun, costs, progress }: ExecutionFacts): boolean =>
  !begun && costs.length === 0 && progress.prUrl === undefined

/**
 * An older host knows no `begun`. For this kind of failure such a host queues the run again, unless the error is an
 * interruption.
 */
const unbegunOutcome = (reason: string): RunOutcome => ({
  ...failedOutcome(withoutInterruption(reason)),
  failure: 'configuration',
  begun: false,
})

function interruptedOutcome({ progress }: ExecutionFacts, whole: RunOutcome, reason: string): RunOutcome {
  const { prUrl, branch } = progress
  const error = truncate(reason, TEXT_CHARS_MAX)
  if (prUrl === undefined) return { ...withoutFailure(whole), status: 'failed', error, ...unpublished(whole) }
  const result = { prUrl, ...(branch === undefined ? {} : { branch }), artifacts: [] }
  return { ...withoutError(whole), status: 'completed', result: whole.result ?? result }
}

/** The agent was done, so its work is not done again. */
const unpublished = ({ sandbox }: RunOutcome): Pick<RunOutcome, 'failure'> =>
  sandbox?.unpublished === true ? { failure: 'publish' } : {}

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
  return withoutFailure(rest)
}

function withoutFailure({ failure: _, ...rest }: RunOutcome): RunOutcome {
  return rest
}

// ---- requests to stop --------------------------------------------------------------------------------------------

/**
 * Returns what both requests together ask for; undefined when the later one adds nothing. A kill may follow an interrupt,
 * and the loss of the lease may follow either. The reason is that of the kill, if there is one; an execution keeps the
 * first one as the reason why its run ends.
 */
export function joinStopRequests(
  before: StopRequest | undefined,
  later: StopRequest,
): StopRequest | undefined {
  if (before === undefined) return later
  const how = before.how === 'kill' ? 'kill' : later.how
  const isLeaseLost = before.leaseLost === true || later.leaseLost === true
  if (how === before.how && isLeaseLost === (before.leaseLost === true)) return undefined
  const { reason } = how === before.how ? before : later
  return { how, reason, ...(isLeaseLost ? { leaseLost: true } : {}) }
}
