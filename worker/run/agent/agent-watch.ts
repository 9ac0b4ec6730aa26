/**
 * `AgentWatch` supervises a running agent: it turns the agent's output into reports and enforces the limits.
 *
 * An agent that has to end is interrupted first and killed a few seconds later, so that it can still report what it has
 * spent.
 */
import type { AgentOutcome, ExecutionReporter } from '../../../core/daemon/ports.ts'
import { createLineReader } from '../../../core/line-reader.ts'
import type { Cancel, Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { JobLimits } from '../../../protocol/frames.ts'
import { LOG_EVENT_BYTES_MAX } from '../../../protocol/limits.ts'
import type { ReportedEvent } from '../../../protocol/run.ts'
import type { AgentExitReport, AgentListener, AgentObservation } from '../../agents/agent.ts'
import { overBudgetReason } from '../../agents/spending.ts'
import type { SandboxEnd, SandboxProcess } from '../../sandbox/driver.ts'

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

// ---- log lines -----------------------------------------------------------------------------------------------------

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

// ---- limits --------------------------------------------------------------------------------------------------------

interface AgentLimitsOptions {
  readonly clock: Clock
  readonly limits: JobLimits
  readonly stallMs: number
  /** Polled every few seconds: why the machine itself cannot go on, or undefined. A rejection counts as undefined. */
  readonly findMachineProblem: () => Promise<string | undefined>
  /** Requests to the model are under way: an end now would count the worst case of each. */
  readonly isModelBusy: () => boolean
  readonly onExceeded: (reason: string) => void
}

const CHECK_EVERY_MS = 5_000
const MINUTE_MS = 60_000

/**
 * `AgentLimits` watches the limits of one agent: minutes, dollars, turns, and time without output.
 *
 * `onExceeded` is called at most once, with a sentence that names the exceeded setting. Some agents also receive their
 * limits and enforce them; this class covers the agents that have no limits of their own or ignore them.
 */
export class AgentLimits {
  readonly #options: AgentLimitsOptions
  readonly #startedAt: number
  #outputAt: number
  #cancelCheck: Cancel | undefined
  #isStopped = false
  #statedUsd = 0

  constructor(options: AgentLimitsOptions) {
    this.#options = options
    this.#startedAt = options.clock.monotonic()
    this.#outputAt = this.#startedAt
    this.#scheduleCheck()
  }

  recordOutput(): void {
    this.#outputAt = this.#options.clock.monotonic()
  }

  recordSpending(spent: { readonly costUsd?: number; readonly turns: number }): void {
    const { isModelBusy, limits } = this.#options
    const { maxTurns } = limits
    this.#statedUsd = Math.max(this.#statedUsd, spent.costUsd ?? 0)
    if (!isModelBusy()) this.recordCost(spent.costUsd)
    if (maxTurns !== undefined && spent.turns > maxTurns)
      this.#exceed(`the agent took more turns than agent.maxTurns allows, which is ${maxTurns}`)
  }

  /** Receives the worker's figure when nothing is under way; the agent's own counts besides. */
  recordCost(costUsd = 0): void {
    const overBudget = overBudgetReason(Math.max(costUsd, this.#statedUsd), this.#options.limits.maxCostUsd)
    if (overBudget !== undefined) this.#exceed(overBudget)
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelCheck?.()
  }

  #scheduleCheck(): void {
    const { clock, limits, stallMs } = this.#options
    const now = clock.monotonic()
    const dueAt = [this.#outputAt + stallMs, this.#startedAt + (limits.maxMinutes ?? Infinity) * MINUTE_MS]
    const waitMs = Math.max(1, Math.min(CHECK_EVERY_MS, ...dueAt.map((at) => at - now)))
    this.#cancelCheck = clock.after(waitMs, () => void this.#check())
  }

  async #check(): Promise<void> {
    const { clock, limits, stallMs } = this.#options
    const now = clock.monotonic()
    if (limits.maxMinutes !== undefined && now - this.#startedAt >= limits.maxMinutes * MINUTE_MS)
      return this.#exceed(
        `the agent took longer than sandbox.maxRunMinutes allows: ${formatDuration(limits.maxMinutes * MINUTE_MS)}`,
      )
    if (now - this.#outputAt >= stallMs)
      return this.#exceed(`the agent printed nothing for ${formatDuration(stallMs)}, so it counts as stalled`)
    // No caller awaits this check: an unhandled rejection would end the whole worker.
    const problem = await this.#options.findMachineProblem().catch(() => undefined)
    if (problem !== undefined) return this.#exceed(problem)
    if (!this.#isStopped) this.#scheduleCheck()
  }

  #exceed(reason: string): void {
    if (this.#isStopped) return
    this.stop()
    this.#options.onExceeded(reason)
  }
}

function formatDuration(ms: number): string {
  const [count, unit] = ms >= MINUTE_MS ? [ms / MINUTE_MS, 'minute'] : [ms / 1000, 'second']
  const rounded = Number(count.toFixed(1))
  return `${rounded} ${unit}${rounded === 1 ? '' : 's'}`
}
