/**
 * `AgentWatch` supervises a running agent: it turns the agent's output into reports and enforces the limits.
 *
 * An agent that has to end is interrupted first and killed a few seconds later, so that it can still report what it has
 * spent.
 */
import type { AgentOutcome, ExecutionReporter } from '../../core/daemon/ports.ts'
import type { Cancel, Clock, Log } from '../../core/ports.ts'
import type { JobLimits } from '../../protocol/frames.ts'
import { LOG_EVENT_BYTES_MAX } from '../../protocol/limits.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import type { AgentExitReport, AgentListener, AgentObservation } from '../agents/agent.ts'
import { createLineReader } from '../agents/line-reader.ts'
import type { SandboxEnd, SandboxProcess } from '../sandbox/sandbox-process.ts'
import { AgentLimits } from './agent-limits.ts'

export interface AgentWatchOptions {
  readonly process: SandboxProcess
  readonly listener: AgentListener
  readonly reporter: ExecutionReporter
  readonly clock: Clock
  readonly log: Log
  readonly limits: JobLimits
  readonly stallMs: number
  readonly findMachineProblem: () => Promise<string | undefined>
  readonly isModelBusy: () => boolean
  readonly onSessionId: (id: string) => void
}

export interface WatchedAgent {
  readonly agentOutcome: AgentOutcome
  readonly exitReport: AgentExitReport
}

/** Time between interrupting and killing an agent; a cancel takes at most 10 s in all. */
const INTERRUPT_GRACE_MS = 4_000

export class AgentWatch {
  readonly #options: AgentWatchOptions
  readonly #limits: AgentLimits
  /** Why the agent was interrupted or killed. */
  #endCause: { readonly by: 'stop' | 'budget'; readonly reason: string } | undefined
  #cancelKill: Cancel | undefined

  constructor(options: AgentWatchOptions) {
    this.#options = options
    const { clock, limits, stallMs, findMachineProblem, isModelBusy } = options
    this.#limits = new AgentLimits({
      clock,
      limits,
      stallMs,
      findMachineProblem,
      isModelBusy,
      onExceeded: (reason) => this.#interruptAgent('budget', reason),
    })
  }

  interrupt(reason: string): void {
    this.#interruptAgent('stop', reason)
  }

  /** Receives the cost so far of what passed to the model, when nothing is under way. */
  recordCost(costUsd: number): void {
    this.#limits.recordCost(costUsd)
  }

  endForBudget(reason: string): void {
    this.#interruptAgent('budget', reason)
  }

  kill(reason: string): void {
    this.#endCause ??= { by: 'stop', reason }
    this.#options.process.kill()
  }

  async waitForEnd(): Promise<WatchedAgent> {
    const { process, listener } = this.#options
    await Promise.all([
      this.#readStream(process.stdout, (line, at) => listener.onOutputLine(line, at)),
      this.#readStream(process.stderr, (line, at) => listener.onErrorLine(line, at)),
    ])
    const end = await process.ended
    this.#limits.stop()
    this.#cancelKill?.()
    const exitReport = listener.onExit(end, this.#instant())
    for (const event of exitReport.events) this.#options.reporter.report({ is: 'event', event })
    return { agentOutcome: this.#decideVerdict(exitReport, end), exitReport }
  }

  // ---- the stream ------------------------------------------------------------------------------------------------

  async #readStream(
    stream: AsyncIterable<Buffer>,
    parse: (line: string, at: string) => readonly AgentObservation[],
  ): Promise<void> {
    const lines = createLineReader()
    try {
      for await (const chunk of stream) {
        this.#limits.recordOutput()
        this.#handleLines(lines.push(chunk), parse)
        await this.#options.reporter.waitForCapacity()
      }
    } catch {
      // A broken pipe counts as its end: `process.ended` says how the process ended.
    }
    this.#handleLines(lines.flush(), parse)
  }

  /** Log lines that arrive in one chunk become one event: 50,000 lines must not become 50,000 events. */
  #handleLines(
    lines: readonly string[],
    parse: (line: string, at: string) => readonly AgentObservation[],
  ): void {
    const at = this.#instant()
    const logLines = new LogLineBatch((event) => this.#options.reporter.report({ is: 'event', event }))
    for (const line of lines)
      for (const observation of this.#parseLine(line, at, parse)) this.#apply(observation, logLines)
    logLines.flush()
  }

  /** An exception while parsing a line is a bug of ours: log it, and continue with the next line. */
  #parseLine(
    line: string,
    at: string,
    parse: (line: string, at: string) => readonly AgentObservation[],
  ): readonly AgentObservation[] {
    try {
      return parse(line, at)
    } catch (error) {
      this.#options.log.error({ err: error }, 'a line of an agent could not be parsed and is left out')
      return []
    }
  }

  #apply(observation: AgentObservation, logLines: LogLineBatch): void {
    switch (observation.is) {
      case 'event':
        logLines.add(observation.event)
        return
      case 'session':
        this.#options.onSessionId(observation.id)
        return
      case 'spent':
        this.#limits.recordSpending(observation)
        return
    }
  }

  // ---- the end ---------------------------------------------------------------------------------------------------

  #interruptAgent(by: 'stop' | 'budget', reason: string): void {
    if (this.#endCause !== undefined) return
    const { process, clock } = this.#options
    this.#endCause = { by, reason }
    process.interrupt()
    this.#cancelKill = clock.after(INTERRUPT_GRACE_MS, () => process.kill())
  }

  #decideVerdict(exitReport: AgentExitReport, end: SandboxEnd): AgentOutcome {
    const endCause = this.#endCause
    if (endCause?.by === 'stop') return { verdict: 'stopped', reason: endCause.reason }
    if (endCause !== undefined) return { verdict: 'failed', reason: endCause.reason }
    if (end.startFailure !== undefined) return { verdict: 'failed', reason: end.startFailure }
    if (exitReport.verdict === 'done') return { verdict: 'done' }
    const reason = exitReport.reason ?? 'the agent failed without saying why'
    return {
      verdict: 'failed',
      reason,
      ...(exitReport.isCredentialRefused ? { failure: 'credentials' } : {}),
    }
  }

  #instant(): string {
    return new Date(this.#options.clock.now()).toISOString()
  }
}

type LogEvent = Extract<ReportedEvent, { type: 'log' }>

/** Joins consecutive log lines of one stream into one event. */
class LogLineBatch {
  readonly #report: (event: ReportedEvent) => void
  #event: LogEvent | undefined
  #texts: string[] = []
  #chars = 0

  constructor(report: (event: ReportedEvent) => void) {
    this.#report = report
  }

  add(event: ReportedEvent): void {
    if (event.type !== 'log') {
      this.flush()
      this.#report(event)
      return
    }
    // A character takes up to six bytes in JSON, and the limit of an event counts those bytes.
    const isFull = (this.#chars + event.text.length) * 6 > LOG_EVENT_BYTES_MAX
    if (this.#event !== undefined && (isFull || this.#event.stream !== event.stream)) this.flush()
    this.#event ??= event
    this.#texts.push(event.text)
    this.#chars += event.text.length + 1
  }

  flush(): void {
    if (this.#event !== undefined) this.#report({ ...this.#event, text: this.#texts.join('\n') })
    this.#event = undefined
    this.#texts = []
    this.#chars = 0
  }
}
