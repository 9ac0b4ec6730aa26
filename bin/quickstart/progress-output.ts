/**
 * What a person reads of the example's runs: a line when a run moves on, a paragraph when all is done.
 *
 * Pure: runs and events in, text out.
 */
import type { Run, RunEvent } from '../../protocol/run.ts'
import { harmless, type Paint } from './colors.ts'

const DIFF_LINES_MAX = 60
const LOG_LINES_MAX = 15
const LINE_CHARS_MAX = 160
const OVER: readonly Run['status'][] = ['completed', 'failed', 'cancelled']

export class Story {
  readonly #paint: Paint
  #identifiers: readonly string[] = []
  readonly #runs = new Map<string, Run>()
  readonly #told = new Map<string, string>()

  constructor(paint: Paint) {
    this.#paint = paint
  }

  /** Which tickets it is about. */
  about(identifiers: readonly string[]): void {
    this.#identifiers = identifiers
  }

  /** The line to print, when there is news. */
  hear(run: Run, elapsedMs: number): string | undefined {
    const { identifier } = run.ticket
    if (!this.#identifiers.includes(identifier)) return undefined
    this.#runs.set(identifier, run)
    const news = newsOf(run, this.#paint)
    if (this.#told.get(identifier) === news) return undefined
    this.#told.set(identifier, news)
    return `${secondsOf(elapsedMs)}  ${this.#paint.bold(identifier.padEnd(8))}  ${news}`
  }

  isOver(): boolean {
    const known = this.runs()
    return known.length > 0 && known.length === this.#identifiers.length && known.every(isOver)
  }

  /** In the order of the tickets; those without a run are not there. */
  runs(): readonly Run[] {
    return this.#identifiers.flatMap((identifier) => this.#runs.get(identifier) ?? [])
  }

  /** Where each stands, for a person who has waited in vain. */
  standing(): string {
    const lines = this.#identifiers.map((identifier) => {
      const run = this.#runs.get(identifier)
      return `  ${identifier}: ${run === undefined ? 'no run yet' : newsOf(run, this.#paint)}`
    })
    return lines.join('\n')
  }
}

export const isPublished = (run: Run): boolean => run.status === 'completed' && run.prUrl !== undefined

/** What a run came to, and what it changes. */
export function ending(run: Run, diff: string, paint: Paint): string {
  const { ticket, result, prUrl = 'none' } = run
  const summary = result?.summary ?? ''
  return [
    paint.bold(`${ticket.identifier}  ${harmless(ticket.title)}`),
    ...(summary === '' ? [] : [`  said          ${oneLine(summary)}`]),
    `  cost          ${costLine(run)}`,
    `  pull request  ${harmless(prUrl)}`,
    ...(result === undefined || result.artifacts.length === 0
      ? []
      : [`  artifacts     ${harmless(result.artifacts.join(', '))}`]),
    ...diffLines(diff, paint).map((line) => `  ${line}`),
  ].join('\n')
}

/** Why it did not come to a pull request, with the last things it said. */
export function failure(run: Run, events: readonly RunEvent[], paint: Paint): string {
  const why = run.error ?? (run.status === 'completed' ? 'no pull request was opened' : run.status)
  const said = events.flatMap(wordsOf).slice(-LOG_LINES_MAX)
  return [
    paint.bad(`${run.ticket.identifier} ${run.status}: ${harmless(why)}`),
    ...(said.length === 0 ? [] : ['  the end of its log:']),
    ...said.map((line) => paint.dim(`    ${line}`)),
  ].join('\n')
}

/** Tokens always; dollars when somebody says so. */
export function costLine({ costTotals }: Run): string {
  if (costTotals === undefined) return 'nothing is known'
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, costUsd, estimated } = costTotals
  const read = inputTokens + cacheReadTokens + cacheWriteTokens
  const dollars = costUsd === undefined ? '' : `, $${costUsd.toFixed(4)}${estimated ? ' (estimated)' : ''}`
  return `${read} tokens in, ${outputTokens} out${dollars}`
}

// ---- parts -------------------------------------------------------------------------------------------------------

const isOver = (run: Run): boolean => OVER.includes(run.status)

function newsOf(run: Run, paint: Paint): string {
  const { status, queueReason, error, prUrl } = run
  if (status === 'queued' && queueReason !== undefined) return `queued: ${oneLine(queueReason)}`
  if (status === 'failed') return paint.bad(`failed: ${oneLine(error ?? 'nobody said why')}`)
  if (status === 'completed' && prUrl !== undefined) return paint.good('completed, with a pull request')
  return status
}

function secondsOf(ms: number): string {
  return `${(ms / 1000).toFixed(1).padStart(6)} s`
}

function oneLine(text: string): string {
  const line = harmless(text).replace(/\s+/g, ' ').trim()
  return line.length <= LINE_CHARS_MAX ? line : `${line.slice(0, LINE_CHARS_MAX)}…`
}

function diffLines(diff: string, paint: Paint): string[] {
  const lines = harmless(diff).trimEnd().split('\n')
  const shown = lines.slice(0, DIFF_LINES_MAX).map((line) => painted(line, paint))
  const more = lines.length - shown.length
  return more === 0 ? shown : [...shown, paint.dim(`… ${more} more lines`)]
}

function painted(line: string, paint: Paint): string {
  if (/^(diff |index |--- |\+\+\+ |new file|@@)/.test(line)) return paint.dim(line)
  if (line.startsWith('+')) return paint.good(line)
  return line.startsWith('-') ? paint.bad(line) : line
}

/** Events that say something, a line each. */
function wordsOf(event: RunEvent): string[] {
  if (event.type === 'log') return [oneLine(event.text)]
  if (event.type === 'limit') return [oneLine(event.message)]
  if (event.type === 'agent') return agentWords(event.message)
  return []
}

/** Of agents' many dialects, whatever looks like text in a message or a result. */
function agentWords(message: Readonly<Record<string, unknown>>): string[] {
  const spoken: { content?: unknown } = Object(message.message)
  const blocks: readonly unknown[] = Array.isArray(spoken.content) ? spoken.content : []
  const texts = blocks.map((block) => {
    const { text, content, name }: { text?: unknown; content?: unknown; name?: unknown } = Object(block)
    return text ?? content ?? (name === undefined ? undefined : `uses ${name}`)
  })
  return texts.flatMap((text) => (typeof text === 'string' && text !== '' ? [oneLine(text)] : []))
}
