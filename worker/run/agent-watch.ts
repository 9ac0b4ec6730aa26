/**
 * An agent while it works: its output becomes reports, its budgets are kept, and when it has to end it is asked first
 * and killed a little later, so that what it has spent is known.
 */
import type { AgentOutcome, ExecutionReporter } from '../../core/daemon/ports.ts'
import type { Cancel, Clock, Log } from '../../core/ports.ts'
import type { JobLimits } from '../../protocol/frames.ts'
import { LOG_EVENT_BYTES_MAX } from '../../protocol/limits.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import type { AgentListener, AgentObservation, AgentOutcome } from '../agents/agent.ts'
import { createLineReader } from '../agents/line-reader.ts'
import type { SandboxEnd, SandboxProcess } from '../sandbox/sandbox-process.ts'
import { Budget } from './agent-limits.ts'

export interface AgentWatchParts {
  readonly process: SandboxProcess
  readonly listener: AgentListener
  readonly reporter: ExecutionReporter
  readonly clock: Clock
  readonly log: Log
  readonly limits: JobLimits
  readonly stallMs: number
  readonly trouble: () => Promise<string | undefined>
  readonly session: (id: string) => void
}

export interface Watched {
  readonly worked: AgentOutcome
  readonly ending: AgentOutcome
}

/** From the question to the axe; a cancel has ten seconds in all. */
const INTERRUPT_MS = 4_000

export class AgentWatch {
  readonly #parts: AgentWatchParts
  readonly #budget: Budget
  /** Why it was told to end. */
  #ordered: { readonly by: 'stop' | 'budget'; readonly reason: string } | undefined
  #axe: Cancel | undefined

  constructor(parts: AgentWatchParts) {
    this.#parts = parts
    const { clock, limits, stallMs, trouble } = parts
    this.#budget = new Budget({
      clock,
      limits,
      stallMs,
      trouble,
      over: (reason) => this.#end('budget', reason),
    })
  }

  interrupt(reason: string): void {
    this.#end('stop', reason)
  }

  kill(reason: string): void {
    this.#ordered ??= { by: 'stop', reason }
    this.#parts.process.kill()
  }

  async watched(): Promise<Watched> {
    const { process, listener } = this.#parts
    await Promise.all([
      this.#read(process.stdout, (line, at) => listener.onOutputLine(line, at)),
      this.#read(process.stderr, (line, at) => listener.onErrorLine(line, at)),
    ])
    const end = await process.ended
    this.#budget.stop()
    this.#axe?.()
    const ending = listener.onExit(end, this.#instant())
    for (const event of ending.events) this.#parts.reporter.report({ is: 'event', event })
    return { worked: this.#judged(ending, end), ending }
  }

  // ---- the stream ------------------------------------------------------------------------------------------------

  async #read(
    stream: AsyncIterable<Buffer>,
    hear: (line: string, at: string) => readonly AgentObservation[],
  ): Promise<void> {
    const lines = createLineReader()
    try {
      for await (const chunk of stream) {
        this.#budget.heard()
        this.#take(lines.push(chunk), hear)
        await this.#parts.reporter.waitForCapacity()
      }
    } catch {
      // A pipe that breaks ends like one that closes: how the process ended is told elsewhere.
    }
    this.#take(lines.flush(), hear)
  }

  /** Plain lines that came together go together: fifty thousand of them are not as many events. */
  #take(lines: readonly string[], hear: (line: string, at: string) => readonly AgentObservation[]): void {
    const at = this.#instant()
    const together = new LogLines((event) => this.#parts.reporter.report({ is: 'event', event }))
    for (const line of lines) for (const heard of this.#heard(line, at, hear)) this.#follow(heard, together)
    together.flush()
  }

  /** A line that our own reading of it stumbles over is our bug, and must not cost the others. */
  #heard(
    line: string,
    at: string,
    hear: (line: string, at: string) => readonly AgentObservation[],
  ): readonly AgentObservation[] {
    try {
      return hear(line, at)
    } catch (error) {
      this.#parts.log.error({ err: error }, 'a line of an agent could not be read; it is left out')
      return []
    }
  }

  #follow(heard: AgentObservation, together: LogLines): void {
    switch (heard.is) {
      case 'event':
        together.add(heard.event)
        return
      case 'session':
        this.#parts.session(heard.id)
        return
      case 'spent':
        this.#budget.spent(heard)
        return
    }
  }

  // ---- the end ---------------------------------------------------------------------------------------------------

  #end(by: 'stop' | 'budget', reason: string): void {
    if (this.#ordered !== undefined) return
    const { process, clock } = this.#parts
    this.#ordered = { by, reason }
    process.interrupt()
    this.#axe = clock.after(INTERRUPT_MS, () => process.kill())
  }

  #judged(ending: AgentOutcome, end: SandboxEnd): AgentOutcome {
    const ordered = this.#ordered
    if (ordered?.by === 'stop') return { verdict: 'stopped', reason: ordered.reason }
    if (ordered !== undefined) return { verdict: 'failed', reason: ordered.reason }
    if (end.startFailure !== undefined) return { verdict: 'failed', reason: end.startFailure }
    if (ending.verdict === 'done') return { verdict: 'done' }
    return { verdict: 'failed', reason: ending.reason ?? 'the agent failed without saying why' }
  }

  #instant(): string {
    return new Date(this.#parts.clock.now()).toISOString()
  }
}

type LogEvent = Extract<ReportedEvent, { type: 'log' }>

class LogLines {
  readonly #tell: (event: ReportedEvent) => void
  #event: LogEvent | undefined
  #texts: string[] = []
  #chars = 0

  constructor(tell: (event: ReportedEvent) => void) {
    this.#tell = tell
  }

  add(event: ReportedEvent): void {
    if (event.type !== 'log') {
      this.flush()
      this.#tell(event)
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
    if (this.#event !== undefined) this.#tell({ ...this.#event, text: this.#texts.join('\n') })
    this.#event = undefined
    this.#texts = []
    this.#chars = 0
  }
}
