/**
 * BoardRecords holds what the dashboard socket has sent, and the newest log lines.
 *
 * Every hello replaces the records. Memory stays bounded: finished runs and log lines beyond a limit are forgotten.
 */
import { hasEnded } from '../../../client/run-events.ts'
import type { AttentionItem } from '../../../protocol/attention.ts'
import type { DashboardFrame, HelloFrame } from '../../../protocol/dashboard.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { keepColors } from '../../output/text-width.ts'
import { lineOf } from '../runs/run-lines.ts'

/** As many as a hello has. */
const FINISHED_RUNS_MAX = 200
const LOG_LINES_MAX = 400

interface NewestLine {
  readonly index: number
  readonly text: string
}

export class BoardRecords {
  readonly runs = new Map<string, Run>()
  workers: readonly WorkerView[] = []
  attention: readonly AttentionItem[] = []
  config: HelloFrame['config'] | undefined
  tracker: HelloFrame['linearStatus'] = { state: 'disconnected' }
  /** Known when the host has answered. */
  hostVersion: string | undefined
  /** The costs of a day, and the midnight at which it began. */
  spent: { readonly since: number; readonly text: string | undefined } | undefined
  readonly #newestLines = new Map<string, NewestLine>()
  /** The run whose log is kept. */
  logRun: string | undefined
  logLines: readonly BoardLogLine[] = []
  /** The newest events have to be read by a request. */
  isLogIncomplete = false
  #logNext = 0

  applyFrame(frame: DashboardFrame): void {
    switch (frame.type) {
      case 'hello':
        this.#applyHello(frame)
        return
      case 'run-updated':
        this.addRun(frame.run)
        return
      case 'workers':
        this.workers = frame.workers
        return
      case 'attention':
        this.attention = frame.items
        return
      case 'config':
        this.config = frame.config
        return
      case 'linear-status':
        this.tracker = frame.linearStatus
        return
      case 'run-event':
        this.#addEvent(frame.event)
        if (frame.event.runId === this.logRun) this.#addLogEvent(frame.event)
        return
      case 'tickets':
      case 'subscribed':
        return
    }
  }

  addRun(run: Run): void {
    this.runs.set(run.id, run)
    if (!hasEnded(run)) return
    this.#newestLines.delete(run.id)
    const finished = [...this.runs.values()].filter(hasEnded)
    if (finished.length <= 2 * FINISHED_RUNS_MAX) return
    const oldest = finished.sort((a, b) => (a.id < b.id ? -1 : 1)).slice(0, -FINISHED_RUNS_MAX)
    for (const { id } of oldest) this.runs.delete(id)
  }

  /** Adds the newest events of a run that a request has read. */
  addEvents(events: readonly RunEvent[]): void {
    for (const event of events) this.#addEvent(event)
  }

  newestLine(runId: string): string | undefined {
    return this.#newestLines.get(runId)?.text
  }

  /** The runs of attention items that the hello lacked. */
  unknownRuns(): string[] {
    return this.attention.flatMap(({ runId }) => (runId === undefined || this.runs.has(runId) ? [] : [runId]))
  }

  // ---- the log of one run --------------------------------------------------------------------------------------------

  selectLog(runId: string | undefined): void {
    if (runId === this.logRun) return
    this.logRun = runId
    this.logLines = []
    this.#logNext = 0
    this.isLogIncomplete = runId !== undefined
  }

  /** Replaces the log by the newest events of its run. Events that arrived meanwhile are among them or follow. */
  setLog(runId: string, events: readonly RunEvent[]): void {
    if (runId !== this.logRun) return
    const last = events.at(-1)?.index ?? -1
    // The answer is older than what was pushed, and the next one has all of it.
    if (last + 1 < this.#logNext) return
    this.isLogIncomplete = false
    this.logLines = events.flatMap(logLinesOf).slice(-LOG_LINES_MAX)
    this.#logNext = last + 1
  }

  /** The newest events cannot be read; the next hello asks for them again. */
  failLog(runId: string, reason: string): void {
    if (runId !== this.logRun) return
    this.isLogIncomplete = false
    if (this.logLines.length === 0) this.logLines = [{ index: 0, at: '', mark: '~~', text: reason }]
  }

  #applyHello({ runs, workers, config, linearStatus }: HelloFrame): void {
    this.runs.clear()
    for (const run of runs) this.runs.set(run.id, run)
    for (const id of this.#newestLines.keys()) if (!this.runs.has(id)) this.#newestLines.delete(id)
    this.workers = workers
    this.config = config
    this.tracker = linearStatus
    this.isLogIncomplete = this.logRun !== undefined
    this.#logNext = 0
  }

  #addEvent(event: RunEvent): void {
    const { runId, index } = event
    if (index <= (this.#newestLines.get(runId)?.index ?? -1)) return
    const text = newestLineOf(event)
    if (text !== undefined) this.#newestLines.set(runId, { index, text })
  }

  #addLogEvent(event: RunEvent): void {
    if (event.index < this.#logNext) return
    // A lost connection or an event before the first answer leaves a gap.
    if (event.index > this.#logNext) this.isLogIncomplete = true
    this.#logNext = event.index + 1
    this.logLines = [...this.logLines, ...logLinesOf(event)].slice(-LOG_LINES_MAX)
  }
}

// ---- lines of events -----------------------------------------------------------------------------------------------

/** A line of the log below the board. */
export interface BoardLogLine {
  readonly index: number
  readonly at: string
  readonly mark: string
  readonly text: string
  /** Stands behind the time of a state. */
  readonly reason?: string | undefined
}

/** An event may have a text of 256 KiB, and no terminal is as wide as this. */
const CHARS_MAX = 1_000
/** No terminal shows more lines of one event. */
const LINES_MAX = 200

/** The newest line as it stands beside a run: `> Bash: npm test`. Undefined for an event that prints no line. */
export function newestLineOf(event: RunEvent): string | undefined {
  if (event.type === 'status' || event.type === 'cost' || event.type === 'gap') return undefined
  const line = lineOf(event)
  const text = line === undefined ? undefined : plainLines(line.text).findLast((each) => each.trim() !== '')
  if (line === undefined || text === undefined) return undefined
  return line.mark === '' ? text.trim() : `${line.mark} ${text.trim()}`
}

/** The lines of one event, as `switchyard logs` prints them. */
export function logLinesOf(event: RunEvent): BoardLogLine[] {
  const line = lineOf(event)
  if (line === undefined) return []
  const { index, at } = event
  const { mark, reason } = line
  return plainLines(line.text).map((text) => ({ index, at, mark, text, reason: reason || undefined }))
}

/** A program that draws a progress bar prints many texts over each other; the last one is what a terminal shows. */
const plainLines = (text: string): string[] =>
  text
    .split('\n')
    .slice(-LINES_MAX)
    .map((line) => keepColors((line.trimEnd().split('\r').at(-1) ?? '').slice(0, CHARS_MAX), false))
