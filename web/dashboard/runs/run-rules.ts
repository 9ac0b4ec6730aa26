/**
 * Says why the host would refuse to do something with a run now, as far as the page's records tell.
 *
 * The host decides in the end: another person may have acted a moment ago.
 */
import { hasEnded, hasUnpublishedWork } from '../../../client/run-events.ts'
import { formatMoney } from '../../../protocol/format.ts'
import type { Run } from '../../../protocol/run.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { ageOf, formatDuration } from '../../text/times.ts'

export type RunAct =
  | 'cancel'
  | 'publish'
  | 'publishAnyway'
  | 'retry'
  | 'followup'
  | 'attach'
  | 'release'
  | 'discard'

export interface RunFacts {
  /** The worker that holds the sandbox, while it is enrolled. */
  readonly worker: WorkerView | undefined
  /** Another run of the ticket that has not ended. */
  readonly competing: Run | undefined
}

/** Undefined: the host would do it. */
export function whyNot(act: RunAct, run: Run, facts: RunFacts): string | undefined {
  return RULES[act](run, facts)
}

type Rule = (run: Run, facts: RunFacts) => string | undefined

const isOpened = ({ id }: Run, { worker }: RunFacts): boolean => worker?.attachedRuns?.includes(id) === true
const IN_USE = 'Its terminal is open: release the sandbox first.'

const endFirst =
  (verb: string): Rule =>
  (run) =>
    hasEnded(run) ? undefined : `The run is ${run.status}. ${verb} after its end.`

const noCompetition: Rule = (_, { competing }) =>
  competing === undefined ? undefined : 'Another run of the ticket has not ended.'

const hasSandbox: Rule = ({ sandbox }) => {
  if (sandbox.id !== undefined) return undefined
  return sandbox.retainedUntil === undefined ? 'The run has left no sandbox.' : 'Its sandbox is gone.'
}

/** The work of a queued run waits for its next try. */
const waitsOrHasEnded =
  (verb: string): Rule =>
  (run, facts) =>
    run.status === 'queued' && hasUnpublishedWork(run) ? undefined : endFirst(verb)(run, facts)

const firstOf =
  (...rules: readonly Rule[]): Rule =>
  (run, facts) => {
    for (const rule of rules) {
      const reason = rule(run, facts)
      if (reason !== undefined) return reason
    }
    return undefined
  }

const mayPublish: Rule = firstOf(
  (run) => (hasUnpublishedWork(run) ? undefined : 'The run has no work that is not published.'),
  waitsOrHasEnded('Its work can be published'),
  (_, { worker }) =>
    worker === undefined ? 'The worker that held its sandbox is enrolled no more.' : undefined,
  (run, facts) => (isOpened(run, facts) ? IN_USE : undefined),
  noCompetition,
)

const RULES: Readonly<Record<RunAct, Rule>> = {
  cancel: (run) => (hasEnded(run) ? 'The run has ended.' : undefined),
  publish: mayPublish,
  publishAnyway: firstOf(
    ({ foundKeys }) => (foundKeys === undefined ? 'Nothing in its work looks like a key.' : undefined),
    mayPublish,
  ),
  retry: firstOf(
    waitsOrHasEnded('It can be retried'),
    ({ prState }) =>
      prState === 'merged' ? 'Its pull request is merged: start its ticket again.' : undefined,
    (run, facts) => (isOpened(run, facts) ? IN_USE : undefined),
    noCompetition,
  ),
  followup: firstOf(
    endFirst('A follow-up starts'),
    ({ status }) => (status === 'completed' ? undefined : `The run is ${status}: retry it.`),
    ({ prUrl }) => (prUrl === undefined ? 'The run has no pull request.' : undefined),
    ({ prState }) =>
      prState === 'merged' || prState === 'closed' ? `Its pull request is ${prState}.` : undefined,
    noCompetition,
    (run, facts) => (isOpened(run, facts) ? IN_USE : undefined),
  ),
  attach: firstOf(
    endFirst('The terminal opens'),
    hasSandbox,
    ({ agentSessionId }) =>
      agentSessionId === undefined ? 'The run has no session to go on with.' : undefined,
    (_, { worker }) => {
      if (worker === undefined) return 'The worker that held its sandbox is enrolled no more.'
      return worker.connection === 'online'
        ? undefined
        : `Worker ${worker.name} holds its sandbox, and is not connected.`
    },
  ),
  release: (run, facts) => (isOpened(run, facts) ? undefined : 'Its sandbox is not running.'),
  discard: firstOf(endFirst('Its sandbox can be discarded'), hasSandbox, (run, facts) =>
    isOpened(run, facts) ? IN_USE : undefined,
  ),
}

/** The work that the run's end would throw away: `It has worked for 12 m 41 s, $1.84.`; undefined before it has begun. */
export function workedWords(
  { startedAt, costTotals }: Pick<Run, 'startedAt' | 'costTotals'>,
  now: number,
): string | undefined {
  if (startedAt === undefined) return undefined
  const cost = costTotals?.costUsd === undefined ? '' : `, ${formatMoney(costTotals)}`
  return `It has worked for ${formatDuration(ageOf(startedAt, now))}${cost}.`
}
