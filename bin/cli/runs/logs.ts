/**
 * `switchyard logs RUN`: prints a run's log from its first line, and with `-f` goes on until the run has ended.
 *
 * With `--json` each event is a line, unaltered. For people each event is one line or several: time, mark, text.
 */

import { beginningOf } from '../../../client/run-beginning.ts'
import { followRun, hasEnded, readEvents } from '../../../client/run-events.ts'
import { formatDuration } from '../../../protocol/format.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { formatCost } from '../../output/amounts.ts'
import { keepColors } from '../../output/text-width.ts'
import { formatClockSeconds, parseSince } from '../../output/times.ts'
import { unwrapOrExit, usageError } from '../../process/exit.ts'
import { whileWatching } from '../../process/watching.ts'
import { findRun } from '../command/names.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { type LogLine, lineOf } from './run-lines.ts'
import type { ShownPhase } from './runs-command.ts'

export interface LogsOptions extends ClientOptions {
  readonly follow?: boolean | undefined
  readonly since?: string | undefined
  readonly tail?: string | undefined
  readonly phase?: ShownPhase | undefined
  readonly stream?: 'stdout' | 'stderr' | 'system' | undefined
  readonly tools?: boolean | undefined
}

const TAIL_MAX = 1000
const STATE_COLUMNS = 11

export async function logs(context: CommandContext<LogsOptions>, name: string): Promise<number | undefined> {
  const { client, options, output } = context
  const filter = new EventFilter(context)
  const tail = parseTail(options.tail)
  const run = await findRun(client, name)
  const printer = new LogPrinter(context)
  const print = async (event: RunEvent) => {
    if (!filter.accepts(event)) return
    printer.print(event)
    await output.drained()
  }
  let after = -1
  if (tail !== undefined) {
    const events = await client.readRunEvents({ id: run.id, tail })
    filter.state = stateBefore(events, run)
    for (const event of events) await print(event)
    after = events.at(-1)?.index ?? after
  }
  if (options.follow !== true) {
    if (tail === undefined)
      for await (const event of readEvents(context.connection, run.id)) await print(event)
    printer.printEnd(run, false)
    return undefined
  }
  return await whileWatching(context, `${run.ticket.identifier} goes on`, async (signal) => {
    const events = followRun(context.connection, run.id, {
      after,
      signal,
      onLost: () => printer.onLost(),
      onBack: () => printer.onBack(),
    })
    let next = await events.next()
    for (; next.done !== true; next = await events.next()) await print(next.value)
    printer.printEnd(next.value, true)
    return undefined
  })
}

function parseTail(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const lines = /^[1-9]\d{0,3}$/.test(text) ? Number(text) : Number.NaN
  if (lines <= TAIL_MAX) return lines
  throw usageError(`--tail ${text} must be a whole number from 1 to ${TAIL_MAX}`)
}

/** The state of a run before the first of its last events. */
function stateBefore(events: readonly RunEvent[], run: Run): string | undefined {
  const change = events.find((event) => event.type === 'status')
  return change === undefined ? run.status : change.from
}

class EventFilter {
  /** Remembered, because an event does not say in which state of the run it happened. */
  state: string | undefined
  readonly #options: LogsOptions
  readonly #from: number | undefined

  constructor({ options, present }: CommandContext<LogsOptions>) {
    const { since } = options
    this.#options = options
    this.#from = since === undefined ? undefined : unwrapOrExit(parseSince(since, '--since', present()))
  }

  accepts(event: RunEvent): boolean {
    const { phase, stream } = this.#options
    if (event.type === 'status') this.state = event.to
    if (this.#from !== undefined && Date.parse(event.at) < this.#from) return false
    if (stream !== undefined && (event.type !== 'log' || event.stream !== stream)) return false
    return phase === undefined || this.state === phase
  }
}

class LogPrinter {
  readonly #context: CommandContext<LogsOptions>
  /** The end of the run, or of an attempt. What follows it decides how it is printed. */
  #held: LogLine | undefined
  #lostAt: number | undefined

  constructor(context: CommandContext<LogsOptions>) {
    this.#context = context
  }

  print(event: RunEvent): void {
    const { output, options } = this.#context
    if (output.format === 'json') {
      output.jsonLine(event)
      return
    }
    this.#printHeld()
    const line = lineOf(event, options.tools)
    if (line === undefined) return
    if (line.mark === '--' && event.type === 'status' && hasEnded({ status: event.to })) this.#held = line
    else output.data(this.#format(line))
  }

  onLost(): void {
    this.#lostAt = performance.now()
    this.#context.output.warn('connection lost, trying again')
  }

  onBack(): void {
    const ms = performance.now() - (this.#lostAt ?? performance.now())
    this.#context.output.warn(`connected again after ${formatDuration(ms)}, no line is missing`)
  }

  /** Prints the last state with what the run took. @param isFollowed the end is told even where a filter hides it */
  printEnd(run: Run, isFollowed: boolean): void {
    const { output } = this.#context
    const summary = summaryOf(run)
    if (this.#held?.text === run.status) this.#printHeld(summary)
    else {
      this.#printHeld()
      if (isFollowed) output.note(output.stderr.clean(`${run.ticket.identifier} ${run.status} ${summary}`))
    }
  }

  #printHeld(summary?: string): void {
    const held = this.#held
    this.#held = undefined
    if (held === undefined) return
    const reason = summary === undefined ? held.reason : [summary, held.reason].filter(Boolean).join(': ')
    this.#context.output.data(this.#format({ ...held, reason }))
  }

  #format({ event, mark, text, reason }: LogLine): string {
    const { output, present } = this.#context
    const { colors, isTerminal } = output.stdout
    const time = formatClockSeconds(Date.parse(event.at), present().offset)
    if (mark === '--') {
      const more = (reason ?? '') === '' ? '' : `  ${output.stdout.clean(reason ?? '')}`
      return colors.bold(`-- ${text.padEnd(STATE_COLUMNS)} ${time}${more}`)
    }
    if (mark === '~~') return colors.attention(`~~ ${text}`)
    const head = `${colors.dim(time)} ${mark === '' ? ' ' : mark} `
    return text
      .split('\n')
      .map((part) => head + keepColors(part, isTerminal && colors.bold('x') !== 'x'))
      .join('\n')
  }
}

/** `in 35m17s, $2.07, https://github.com/acme/api/pull/91`. */
function summaryOf(run: Run): string {
  const from = Date.parse(run.startedAt ?? beginningOf(run))
  const took = run.finishedAt === undefined ? '' : `in ${formatDuration(Date.parse(run.finishedAt) - from)}`
  const cost = run.costTotals === undefined ? '' : formatCost(run.costTotals)
  return [took, cost, run.prUrl].filter(Boolean).join(', ')
}
