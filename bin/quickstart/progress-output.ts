/**
 * Formats the progress of the example's runs: a line for each change, a paragraph for each result.
 *
 * All functions are pure: runs and events in, text out.
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

  /** Sets the tickets whose runs are shown. */
  setTickets(identifiers: readonly string[]): void {
    this.#identifiers = identifiers
  }

  /** Returns the line to print; undefined when nothing changed for a person. */
  onRunUpdate(run: Run, elapsedMs: number): string | undefined {
    const { identifier } = run.ticket
    if (!this.#identifiers.includes(identifier)) return undefined
    this.#runs.set(identifier, run)
    const text = statusText(run, this.#colors)
    if (this.#lastText.get(identifier) === text) return undefined
    this.#lastText.set(identifier, text)
    return `${formatSeconds(elapsedMs)}  ${this.#colors.bold(identifier.padEnd(8))}  ${text}`
  }

  isOver(): boolean {
    const known = this.runs()
    return known.length > 0 && known.length === this.#identifiers.length && known.every(isOver)
  }

  /** The runs in the order of the tickets; tickets without a run are left out. */
  runs(): readonly Run[] {
    return this.#identifiers.flatMap((identifier) => this.#runs.get(identifier) ?? [])
  }

  /** The state of each ticket, for the message after a timeout. */
  describeState(): string {
    const lines = this.#identifiers.map((identifier) => {
      const run = this.#runs.get(identifier)
      return `  ${identifier}: ${run === undefined ? 'no run yet' : statusText(run, this.#colors)}`
    })
    return lines.join('\n')
  }
}

export const isPublished = (run: Run): boolean => run.status === 'completed' && run.prUrl !== undefined

/** The result of a run, and its changes. */
export function describeResult(run: Run, diff: string, colors: Colors): string {
  const { ticket, result, prUrl = 'none' } = run
  const summary = result?.summary ?? ''
  return [
    colors.bold(`${ticket.identifier}  ${removeControls(ticket.title)}`),
    ...(summary === '' ? [] : [`  summary       ${toSingleLine(summary)}`]),
    `  cost          ${describeCost(run)}`,
    `  pull request  ${removeControls(prUrl)}`,
    ...(result === undefined || result.artifacts.length === 0
      ? []
      : [`  artifacts     ${removeControls(result.artifacts.join(', '))}`]),
    ...diffLines(diff, colors).map((line) => `  ${line}`),
  ].join('\n')
}

/** Why a run has no pull request, with the end of its log. */
export function describeFailure(run: Run, events: readonly RunEvent[], colors: Colors): string {
  const why = run.error ?? (run.status === 'completed' ? 'no pull request was opened' : run.status)
  const texts = events.flatMap(eventTexts).slice(-LOG_LINES_MAX)
  return [
    colors.bad(`${run.ticket.identifier} ${run.status}: ${removeControls(why)}`),
    ...(texts.length === 0 ? [] : ['  the end of its log:']),
    ...texts.map((line) => colors.dim(`    ${line}`)),
  ].join('\n')
}

/** The tokens, and the dollars when they are known. */
export function describeCost({ costTotals }: Run): string {
  if (costTotals === undefined) return 'unknown'
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, costUsd, estimated } = costTotals
  const read = inputTokens + cacheReadTokens + cacheWriteTokens
  const dollars = costUsd === undefined ? '' : `, $${costUsd.toFixed(4)}${estimated ? ' (estimated)' : ''}`
  return `${read} tokens in, ${outputTokens} out${dollars}`
}

// ---- formatting -------------------------------------------------------------------------------------------------------

const isOver = (run: Run): boolean => OVER.includes(run.status)

function statusText(run: Run, colors: Colors): string {
  const { status, queueReason, error, prUrl } = run
  if (status === 'queued' && queueReason !== undefined) return `queued: ${toSingleLine(queueReason)}`
  if (status === 'failed') return colors.bad(`failed: ${toSingleLine(error ?? 'no reason was given')}`)
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

/** The texts of an event, as single lines. */
function eventTexts(event: RunEvent): string[] {
  if (event.type === 'log') return [toSingleLine(event.text)]
  if (event.type === 'limit') return [toSingleLine(event.message)]
  if (event.type === 'agent') return agentTexts(event.message)
  return []
}

/** The texts of an agent's message or result, in any of the agents' formats. */
function agentTexts(message: Readonly<Record<string, unknown>>): string[] {
  const spoken: { content?: unknown } = Object(message.message)
  const blocks: readonly unknown[] = Array.isArray(spoken.content) ? spoken.content : []
  const texts = blocks.map((block) => {
    const { text, content, name }: { text?: unknown; content?: unknown; name?: unknown } = Object(block)
    return text ?? content ?? (name === undefined ? undefined : `uses ${name}`)
  })
  return texts.flatMap((text) => (typeof text === 'string' && text !== '' ? [toSingleLine(text)] : []))
}
