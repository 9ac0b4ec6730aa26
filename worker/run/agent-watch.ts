/**
 * An agent while it works: its output becomes reports, its budgets are kept, and when it has to end it is asked first
 * and killed a little later, so that what it has spent is known.
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
  readonly onSessionId: (id: string) => void
}

export interface WatchedAgent {
  readonly agentOutcome: AgentOutcome
  readonly exitReport: AgentExitReport
}

/** From the question to the axe; a cancel has ten seconds in all. */
const INTERRUPT_GRACE_MS = 4_000

export class AgentWatch {
  readonly #options: AgentWatchOptions
  readonly #limits: AgentLimits
  /** Why it was told to end. */
  #endCause: { readonly by: 'stop' | 'budget'; readonly reason: string } | undefined
  #cancelKill: Cancel | undefined

  constructor(options: AgentWatchOptions) {
    this.#options = options
    const { clock, limits, stallMs, findMachineProblem } = options
    this.#limits = new AgentLimits({
      clock,
      limits,
      stallMs,
      findMachineProblem,
      onExceeded: (reason) => this.#interruptAgent('budget', reason),
    })
  }

  interrupt(reason: string): void {
    this.#interruptAgent('stop', reason)
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
      // A pipe that breaks ends like one that closes: how the process ended is told elsewhere.
    }
    this.#handleLines(lines.flush(), parse)
  }

  /** Plain lines that came together go together: fifty thousand of them are not as many events. */
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

  /** A line that our own reading of it stumbles over is our bug, and must not cost the others. */
  #parseLine(
    line: string,
    at: string,
    parse: (line: string, at: string) => readonly AgentObservation[],
  ): readonly AgentObservation[] {
    try {
      return parse(line, at)
    } catch (error) {
      this.#options.log.error({ err: error }, 'a line of an agent could not be read; it is left out')
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
    return { verdict: 'failed', reason: exitReport.reason ?? 'the agent failed without saying why' }
  }

  #instant(): string {
    return new Date(this.#options.clock.now()).toISOString()
  }
}

type LogEvent = Extract<ReportedEvent, { type: 'log' }>

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
    // A character has up to six bytes in JSON, and one event's text a bound in those.
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
