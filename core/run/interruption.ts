/**
 * Tells which runs were interrupted from outside: their worker ended, or their lease was lost.
 *
 * Workers and hosts write and recognize the same prefix. Errors from an agent must not carry it, or the run would be
 * queued again.
 */
import type { RunFields } from '../../protocol/actor-snapshots.ts'
import { AGENTS, type AgentProvider } from '../../protocol/agents/registry.ts'
import type { AgentJob, RunOutcome, RunPatch, WorkerFrame } from '../../protocol/frames.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import { truncate } from '../safe-text.ts'

const INTERRUPTED = 'interrupted: '
const HOUR_MS = 3_600_000

export const interruptionError = (why: string): string => `${INTERRUPTED}${why}`

/** @param phase the run's status when the daemon ended */
export const daemonEndedError = (phase: string): string =>
  interruptionError(`the worker daemon ended while the run was ${phase}`)

export const withoutInterruption = (reason: string): string =>
  isInterruption(reason) ? reason.slice(INTERRUPTED.length) : reason

export function isInterrupted({ status, error }: Pick<RunOutcome, 'status' | 'error'>): boolean {
  return status === 'failed' && error !== undefined && isInterruption(error)
}

export const isInterruption = (reason: string): boolean => reason.startsWith(INTERRUPTED)

interface InterruptibleRun extends Pick<RunFields, 'job' | 'interruptions'> {
  readonly run: Pick<Run, 'sandbox' | 'agentSessionId'>
}

/**
 * Returns the worker on which the agent of the run was interrupted, or has finished work that a person wants changed before
 * it is published. The run does not wait for that worker.
 */
export function preferredHolder({ run, job, interruptions }: InterruptibleRun): string | undefined {
  const { id, workerId, unpublished } = run.sandbox
  const hasBegun = job === 'run' && (interruptions > 0 || unpublished === true)
  return hasBegun && id !== undefined ? workerId : undefined
}

/** A worker that holds what a run needs, and until when the run waits for it, in wall milliseconds. */
export interface SandboxHolder {
  readonly workerId: string
  readonly until: number
}

/**
 * Returns the worker that was lost after the agent was done. The run waits for it as long as such a sandbox is kept, so no
 * agent is paid twice for one work: the worker publishes what it finds there, whether its agent can resume a session or not.
 * Where the worker finds none, the agent goes on, or begins anew.
 */
export function doneHolder(
  interrupted: InterruptibleRun & Pick<RunFields, 'doneAt'>,
  retentionHours: number,
): SandboxHolder | undefined {
  const { doneAt } = interrupted
  const workerId = preferredHolder(interrupted)
  if (doneAt === null || workerId === undefined) return undefined
  return { workerId, until: Date.parse(doneAt) + retentionHours * HOUR_MS }
}

/**
 * Returns the worker whose sandbox is of no use any more, because another worker has accepted the interrupted run. Finished
 * work stays in its sandbox.
 *
 * @param interrupted the run before it was accepted
 */
export function uselessHolder(interrupted: InterruptibleRun, by: string | undefined): string | undefined {
  const holder = preferredHolder(interrupted)
  return holder === by || interrupted.run.sandbox.unpublished === true ? undefined : holder
}

/**
 * Lets the agent go on in its session, on the worker that may still hold its sandbox; the worker checks that itself.
 * `continuesSessions`: the worker can do that.
 */
export function withSession(
  job: AgentJob,
  interrupted: InterruptibleRun,
  worker: { readonly id: string; readonly continuesSessions: boolean } | undefined,
): AgentJob {
  const { agentSessionId } = interrupted.run
  const mayContinue =
    worker?.continuesSessions === true &&
    preferredHolder(interrupted) === worker.id &&
    AGENTS[job.agent.provider].isResumable
  return mayContinue && agentSessionId !== undefined ? { ...job, continueSession: agentSessionId } : job
}

/** Removes a session from a report when the agent can't go on with one, whatever its worker says. */
export function withResumableSession<R extends RunPatch | RunOutcome>(
  reported: R,
  provider: AgentProvider,
): R {
  if (reported.agentSessionId === undefined || AGENTS[provider].isResumable) return reported
  const { agentSessionId: _, ...report } = reported
  // The cast holds because only an optional field is missing.
  return report as R
}

/** The worker says that it ended before the agent began, so nothing was done that another attempt would repeat. */
export const isUnbegun = ({ status, begun }: Pick<RunOutcome, 'status' | 'begun'>): boolean =>
  status === 'failed' && begun === false

/** A host of the first form knows no `begun`, and takes a follow-up up again that was interrupted. */
export function interruptUnbegun(frame: WorkerFrame): WorkerFrame {
  if (frame.type !== 'run-complete' || !isUnbegun(frame.outcome)) return frame
  const error = truncate(interruptionError(frame.outcome.error ?? 'its worker ended'), TEXT_CHARS_MAX)
  return { ...frame, outcome: { ...frame.outcome, error } }
}

/** Removes the meaning of the prefix from the error of an execution that ended by itself. */
export function disclaimInterruption(outcome: RunOutcome): RunOutcome {
  return isInterrupted(outcome)
    ? { ...outcome, error: truncate(`it says: ${outcome.error}`, TEXT_CHARS_MAX) }
    : outcome
}
