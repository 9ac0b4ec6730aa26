/**
 * The fields of an outcome that depend on publishing: the status, and what is visible on the code host.
 * `PhaseReporter` names the phase in events.
 */
import type { ExecutionReport, ExecutionReporter, StopRequest } from '../../../core/daemon/ports.ts'
import { toPrintable } from '../../../core/printable-output.ts'
import type { RunOutcome } from '../../../protocol/frames.ts'
import { PROSE_CHARS_MAX, TEXT_CHARS_MAX } from '../../../protocol/limits.ts'
import type { RunPhase } from '../../../protocol/run.ts'
import { truncateToChars } from '../../../protocol/text-budget.ts'
import type { PublishEnd, PublishedWork } from './work-plan.ts'

export type OutcomeStatus = Pick<RunOutcome, 'status' | 'error' | 'failure' | 'keys' | 'keysDigest'>

export function statusOfPublishing({ published }: PublishEnd, stop: StopRequest | undefined): OutcomeStatus {
  if (published.ok) return { status: 'completed' }
  if (stop !== undefined) return { status: 'cancelled', error: reasonText(stop.reason) }
  const { message, failure, keys, keysDigest } = published.refusal
  return {
    status: 'failed',
    error: reasonText(message),
    ...(failure === undefined ? {} : { failure }),
    ...(keys === undefined ? {} : { keys: [...keys] }),
    ...(keysDigest === undefined ? {} : { keysDigest }),
  }
}

/** `work`: undefined when nothing was published. */
export function describePublished(
  work: PublishedWork | undefined,
  summary: string,
  artifacts: readonly string[],
): Pick<RunOutcome, 'result' | 'prUrl' | 'prState'> {
  const { branch, prUrl, prState } = work ?? {}
  return {
    result: {
      artifacts: [...artifacts],
      ...(summary === '' ? {} : { summary: truncateToChars(summary, PROSE_CHARS_MAX) }),
      ...(branch === undefined ? {} : { branch }),
      ...(prUrl === undefined ? {} : { prUrl }),
    },
    ...(prUrl === undefined ? {} : { prUrl }),
    ...(prState === undefined ? {} : { prState }),
  }
}

export const reasonText = (reason: string | undefined): string =>
  truncateToChars(
    toPrintable(reason === undefined || reason === '' ? 'no reason was given' : reason),
    TEXT_CHARS_MAX,
  )

// ---- the phases ----------------------------------------------------------------------------------------------------

/** Passes reports on, and names the phase of the run in each status and log event. */
export class PhaseReporter implements ExecutionReporter {
  /** The phase in which the execution is now. */
  phase: RunPhase = 'checkout'
  readonly #reporter: ExecutionReporter

  constructor(reporter: ExecutionReporter) {
    this.#reporter = reporter
  }

  report(report: ExecutionReport): void {
    this.#reporter.report(withPhase(report, this.phase))
  }

  waitForCapacity(): Promise<void> {
    return this.#reporter.waitForCapacity()
  }
}

function withPhase(report: ExecutionReport, phase: RunPhase): ExecutionReport {
  if (report.is !== 'event') return report
  const { event } = report
  return event.type === 'status' || event.type === 'log'
    ? { is: 'event', event: { ...event, phase } }
    : report
}
