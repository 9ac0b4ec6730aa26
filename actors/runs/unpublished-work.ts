/**
 * The part of the run machine about finished work that could not be published: the run's record and context while the
 * work waits in its sandbox, and when the sandbox is lost.
 */
import { sandboxHolder } from '../../core/run/follow-up.ts'
import { withoutFoundKeys } from '../../core/run/found-keys.ts'
import {
  dropUnpublished,
  keptWorkError,
  mergeResults,
  type Publishing,
  unpublishedError,
  withBundles,
  withoutBundle,
  wordOf,
} from '../../core/run/publishing.ts'
import { applyRunOptions, hasInstructions } from '../../core/run/run-options.ts'
import { failRun, requeueRun } from '../../core/run/run-transitions.ts'
import { bundleName } from '../../protocol/kept-bundle.ts'
import type { Run, RunResult } from '../../protocol/run.ts'
import type { RunActionFacts, RunContext, RunMachineEvent } from './run.machine.ts'

export function instantOf(event: RunMachineEvent): string {
  if (!('at' in event)) return ''
  return typeof event.at === 'number' ? new Date(event.at).toISOString() : event.at
}

// ---- the sandbox ---------------------------------------------------------------------------------------------------

/** Only the deadline `kept` says that the time of a sandbox is over: no event's own instant does, its clock may be wrong. */
export const isSandboxKept = (run: Run): boolean => sandboxHolder(run, undefined) !== undefined

/** The worker of a job that only publishes is lost, and the work is still in its sandbox. */
export const waitsForHolder = ({ context }: RunActionFacts): boolean =>
  context.publishing !== null && isSandboxKept(context.run)

export const hasLostSandbox = ({ context }: RunActionFacts): boolean =>
  context.publishing !== null && !isSandboxKept(context.run)

export const mayPublishNow = ({ context }: RunActionFacts): boolean =>
  context.publishing !== null && context.lease === null

/** The run waits for a slot of its worker only. */
export function afterDue({ context, event }: RunActionFacts): Partial<RunContext> {
  const { run, publishing } = context
  const isPersons = event.type === 'publish now'
  if (publishing === null || (run.foundKeys !== undefined && !isPersons)) return {}
  const isOrdered = isPersons && event.anyway === true
  const { anyway: _, shownKeys: __, ...unordered } = publishing
  const due: Publishing = isOrdered
    ? { ...unordered, nextAt: null, ...wordOf(event) }
    : { ...publishing, nextAt: null }
  if (publishing.nextAt === null && run.foundKeys === undefined) return isOrdered ? { publishing: due } : {}
  return { run: withoutFoundKeys(requeueRun(run, undefined, run.createdAt)), publishing: due }
}

/** The work holds keys, so nothing happens to it until a person says so. */
export const isHeldForKeys = ({ event }: RunActionFacts): boolean =>
  'outcome' in event && event.outcome.keys !== undefined && event.outcome.keys.length > 0

export function sandboxLostError({ context, event }: RunActionFacts): string {
  const { why, result } = context.publishing ?? {}
  const isRevoked = event.type === 'sandbox lost'
  const lost = isRevoked ? event.reason : 'its work could not be published while its sandbox was kept'
  return unpublishedError(`${lost}: ${why}`, result, bundleName(context.followUp))
}

/** The run fails; the bundle of its commits stays. */
export function afterSandboxLost(facts: RunActionFacts): Partial<RunContext> {
  const { run, publishing } = facts.context
  const failed = failRun(dropUnpublished(run), sandboxLostError(facts), instantOf(facts.event))
  return { run: showExecution(failed, publishing), lease: null }
}

// ---- the record ----------------------------------------------------------------------------------------------------

/**
 * Adds the artifacts of a follow-up, or of a job that only published, to those that the run had before. The bundle goes
 * when its own commits are published: those of an earlier follow-up may be nowhere else.
 */
export function addEarlierResult(
  run: Run,
  { earlier, publishing, followUp }: Pick<RunContext, 'earlier' | 'publishing' | 'followUp'>,
): Run {
  const result = mergeResults(publishing?.result ?? earlier?.result, run.result)
  if (result === undefined || result === run.result) return run
  const isPublished = publishing !== null && run.status === 'completed'
  return { ...run, result: isPublished ? withoutBundle(result, bundleName(followUp)) : result }
}

export function explainUnpublished(run: Run, { context }: Pick<RunActionFacts, 'context'>): Run {
  const isPublished = context.publishing === null && run.sandbox.unpublished !== true
  if (run.status === 'completed' || isPublished) return run
  const why = run.error ?? 'it was stopped before its work was published'
  const isKept = run.sandbox.unpublished === true && isSandboxKept(run)
  return {
    ...run,
    error: isKept ? keptWorkError(run, why) : unpublishedError(why, run.result, bundleName(context.followUp)),
  }
}

/** The record of a run that ends while its work waits to be published shows what the agent's execution left. */
export function showExecution(run: Run, publishing: Publishing | null): Run {
  if (publishing === null) return run
  const { result } = publishing
  return { ...showStart(run, publishing), ...(result === null ? {} : { result }) }
}

/** A job that only publishes goes on with the execution of the agent. */
export const showStart = (run: Run, { startedAt }: Publishing): Run =>
  startedAt === null ? run : { ...run, startedAt }

/** A completed run whose follow-up failed keeps the bundle of the follow-up's commits. */
export function keepBundle(run: Run, reported: RunResult | null | undefined): Run {
  const { result } = run
  return result === undefined ? run : { ...run, result: withBundles(result, reported) }
}

/** A person's words are for the agent, so it is asked again. */
export function afterOptionsChanged({ context, event }: RunActionFacts): Partial<RunContext> {
  if (event.type !== 'options changed') return {}
  const run = applyRunOptions(context.run, event.options)
  if (context.publishing === null || !hasInstructions(event.options)) return { run }
  const queued = requeueRun(withoutFoundKeys(run), undefined, run.queuedAt ?? run.createdAt)
  return { run: queued, publishing: null }
}
