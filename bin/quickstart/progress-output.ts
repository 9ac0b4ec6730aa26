/**
 * What a person reads of the example's runs: a line when a run moves on, a paragraph when all is done.
 *
 * Pure: runs and events in, text out.
 */
import type { Run, RunEvent } from '../../protocol/run.ts'
import { type Colors, removeControls } from './colors.ts'

const DIFF_LINES_MAX = 60
const LOG_LINES_MAX = 15
const TEXT_LINE_CHARS_MAX = 160
const OVER: readonly Run['status'][] = ['completed', 'failed', 'cancelled']

export class ProgressOutput {
  readonly #colors: Colors
  #identifiers: readonly string[] = []
  readonly #runs = new Map<string, Run>()
  readonly #lastText = new Map<string, string>()

  constructor(colors: Colors) {
    this.#colors = colors
  }

  /** Which tickets it is about. */
  setTickets(identifiers: readonly string[]): void {
    this.#identifiers = identifiers
  }

  /** The line to print, when there is news. */
  onRunUpdate(run: Run, elapsedMs: number): string | undefined {
    const { identifier } = run.ticket
    if (!this.#identifiers.includes(identifier)) return undefined
    this.#runs.set(identifier, run)
    const news = statusText(run, this.#colors)
    if (this.#lastText.get(identifier) === news) return undefined
    this.#lastText.set(identifier, news)
    return `${formatSeconds(elapsedMs)}  ${this.#colors.bold(identifier.padEnd(8))}  ${news}`
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
  describeState(): string {
    const lines = this.#identifiers.map((identifier) => {
      const run = this.#runs.get(identifier)
      return `  ${identifier}: ${run === undefined ? 'no run yet' : statusText(run, this.#colors)}`
    })
    return lines.join('\n')
  }
}

export const isPublished = (run: Run): boolean => run.status === 'completed' && run.prUrl !== undefined

/** What a run came to, and what it changes. */
export function describeResult(run: Run, diff: string, colors: Colors): string {
  const { ticket, result, prUrl = 'none' } = run
  const summary = result?.summary ?? ''
  return [
    colors.bold(`${ticket.identifier}  ${removeControls(ticket.title)}`),
    ...(summary === '' ? [] : [`  said          ${toSingleLine(summary)}`]),
    `  cost          ${describeCost(run)}`,
    `  pull request  ${removeControls(prUrl)}`,
    ...(result === undefined || result.artifacts.length === 0
      ? []
      : [`  artifacts     ${removeControls(result.artifacts.join(', '))}`]),
    ...diffLines(diff, colors).map((line) => `  ${line}`),
  ].join('\n')
}

/** Why it did not come to a pull request, with the last things it said. */
export function describeFailure(run: Run, events: readonly RunEvent[], colors: Colors): string {
  const why = run.error ?? (run.status === 'completed' ? 'no pull request was opened' : run.status)
  const said = events.flatMap(eventTexts).slice(-LOG_LINES_MAX)
  return [
    colors.bad(`${run.ticket.identifier} ${run.status}: ${removeControls(why)}`),
    ...(said.length === 0 ? [] : ['  the end of its log:']),
    ...said.map((line) => colors.dim(`    ${line}`)),
  ].join('\n')
}

/** Tokens always; dollars when somebody says so. */
export function describeCost({ costTotals }: Run): string {
  if (costTotals === undefined) return 'nothing is known'
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, costUsd, estimated } = costTotals
  const read = inputTokens + cacheReadTokens + cacheWriteTokens
  const dollars = costUsd === undefined ? '' : `, $${costUsd.toFixed(4)}${estimated ? ' (estimated)' : ''}`
  return `${read} tokens in, ${outputTokens} out${dollars}`
}

// ---- parts -------------------------------------------------------------------------------------------------------

const isOver = (run: Run): boolean => OVER.includes(run.status)

function statusText(run: Run, colors: Colors): string {
  const { status, queueReason, error, prUrl } = run
  if (status === 'queued' && queueReason !== undefined) return `queued: ${toSingleLine(queueReason)}`
  if (status === 'failed') return colors.bad(`failed: ${toSingleLine(error ?? 'nobody said why')}`)
  if (status === 'completed' && prUrl !== undefined) return colors.good('completed, with a pull request')
  return status
}

function formatSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(1).padStart(6)} s`
}

function toSingleLine(text: string): string {
  const line = removeControls(text).replace(/\s+/g, ' ').trim()
  return line.length <= TEXT_LINE_CHARS_MAX ? line : `${line.slice(0, TEXT_LINE_CHARS_MAX)}…`
}

function diffLines(diff: string, colors: Colors): string[] {
  const lines = removeControls(diff).trimEnd().split('\n')
  const shown = lines.slice(0, DIFF_LINES_MAX).map((line) => colorDiffLine(line, colors))
  const more = lines.length - shown.length
  return more === 0 ? shown : [...shown, colors.dim(`… ${more} more lines`)]
}

function colorDiffLine(line: string, colors: Colors): string {
  if (/^(diff |index |--- |\+\+\+ |new file|@@)/.test(line)) return colors.dim(line)
  if (line.startsWith('+')) return colors.good(line)
  return line.startsWith('-') ? colors.bad(line) : line
}

/** Events that say something, a line each. */
function eventTexts(event: RunEvent): string[] {
  if (event.type === 'log') return [toSingleLine(event.text)]
  if (event.type === 'limit') return [toSingleLine(event.message)]
  if (event.type === 'agent') return agentTexts(event.message)
  return []
}

/** Of agents' many dialects, whatever looks like text in a message or a result. */
function agentTexts(message: Readonly<Record<string, unknown>>): string[] {
  const spoken: { content?: unknown } = Object(message.message)
  const blocks: readonly unknown[] = Array.isArray(spoken.content) ? spoken.content : []
  const texts = blocks.map((block) => {
    const { text, content, name }: { text?: unknown; content?: unknown; name?: unknown } = Object(block)
    return text ?? content ?? (name === undefined ? undefined : `uses ${name}`)
  })
  return texts.flatMap((text) => (typeof text === 'string' && text !== '' ? [toSingleLine(text)] : []))
}
