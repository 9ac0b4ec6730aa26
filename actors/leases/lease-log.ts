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
import {
  describeLeftOut,
  LOG_IS_FULL,
  logBudget,
  logBytesMaxFor,
  splitLogEvent,
} from '../../core/run/log-budget.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import type { RunEventLog } from '../runs/run-event-log.ts'

export class LeaseLog {
  readonly #context: HostContext
  readonly #runEventLog: RunEventLog
  readonly #runId: string
  #leftOutBytes: number

  constructor(context: HostContext, runEventLog: RunEventLog, runId: string, leftOutBytes: number) {
    this.#context = context
    this.#runEventLog = runEventLog
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
    const logBytesMax = logBytesMaxFor(event, logBudget(this.#context.config()))
    const { isKept, bytes } = this.#runEventLog.append(this.#runId, event, logBytesMax)
    if (isKept) return
    if (this.#leftOutBytes === 0) this.#appendNotice(LOG_IS_FULL)
    this.#leftOutBytes += bytes
  }

  /** Appends a sentence of the service about what the worker reported. */
  appendText(text: string): void {
    this.append({ at: this.#context.instant(), type: 'log', stream: 'system', text })
  }

  /** Names what was left out. Called when the lease ends. */
  end(): void {
    if (this.#leftOutBytes === 0) return
    this.#appendNotice(describeLeftOut(this.#leftOutBytes))
    this.#leftOutBytes = 0
  }

  /** A lease has at most two notices, so they need no limit. */
  #appendNotice(text: string): void {
    this.#runEventLog.appendText(this.#runId, this.#context.instant(), text)
  }
}
