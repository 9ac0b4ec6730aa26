/**
 * LeaseLog appends what one lease reports to the log of its run, as far as the run's budget allows.
 *
 * A worker splits long texts, makes them printable and limits its log itself. LeaseLog guards against one that does not:
 * it does so again, and
 * counts and leaves out what exceeds the budget. The run's log says so at the first event and, with the number of bytes,
 * at the end of the lease. The count is stored with the watermark, so it survives a restart. LeaseLog leaves the order
 * of frames to FrameReceiver.
 */
import { printableTexts } from '../../core/printable-output.ts'
import { describeLeftOut, LOG_IS_FULL, logBytesMaxFor, splitLogEvent } from '../../core/run/log-budget.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import type { RunEventLog } from '../runs/run-event-log.ts'

export interface LeaseLogPorts {
  readonly runEventLog: RunEventLog
  /** The current wall time as an ISO 8601 timestamp. */
  readonly instant: () => string
  /** The bytes of events that a run may store. */
  readonly logBudget: () => number
}

export class LeaseLog {
  readonly #ports: LeaseLogPorts
  readonly #runId: string
  #leftOutBytes: number

  constructor(ports: LeaseLogPorts, runId: string, leftOutBytes: number) {
    this.#ports = ports
    this.#runId = runId
    this.#leftOutBytes = leftOutBytes
  }

  /** Bytes of events that were left out and are not named in the log yet. */
  get leftOutBytes(): number {
    return this.#leftOutBytes
  }

  append(event: ReportedEvent): void {
    for (const part of splitLogEvent(printableTexts(event))) this.#appendPart(part)
  }

  #appendPart(event: ReportedEvent): void {
    const { runEventLog, logBudget } = this.#ports
    const { isKept, bytes } = runEventLog.append(this.#runId, event, logBytesMaxFor(event, logBudget()))
    if (isKept) return
    if (this.#leftOutBytes === 0) this.#appendNotice(LOG_IS_FULL)
    this.#leftOutBytes += bytes
  }

  /** Appends a sentence of the service about what the worker reported. */
  appendText(text: string): void {
    this.append({ at: this.#ports.instant(), type: 'log', stream: 'system', text })
  }

  /** Names what was left out. Called when the lease ends. */
  end(): void {
    if (this.#leftOutBytes === 0) return
    this.#appendNotice(describeLeftOut(this.#leftOutBytes))
    this.#leftOutBytes = 0
  }

  /** A lease has at most two notices, so they need no limit. */
  #appendNotice(text: string): void {
    this.#ports.runEventLog.appendText(this.#runId, this.#ports.instant(), text)
  }
}
