/** `PhaseReporter` passes reports on, and names the phase of the run in each status and log event. */
import type { ExecutionReport, ExecutionReporter } from '../../core/daemon/ports.ts'
import type { RunPhase } from '../../protocol/run.ts'

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
