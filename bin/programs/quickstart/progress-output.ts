/**
 * Formats the progress of the example's runs: a line for each change, a paragraph for each result.
 *
 * All functions are pure: runs and events in, text out.
 */

import { collapseSpaces } from '../../../core/safe-text.ts'
import { formatMoney } from '../../../protocol/format.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { shortenEnd } from '../../../protocol/shorten.ts'
import type { Colors } from '../../output/colors.ts'
import { replaceControls, truncateEnd, wrapWords } from '../../output/text-width.ts'

const DIFF_LINES_MAX = 24
const LOG_LINES_MAX = 15
const TEXT_LINE_CHARS_MAX = 160
const OVER: readonly Run['status'][] = ['completed', 'failed', 'cancelled']

export interface RunLine {
  readonly runId: string
  readonly text: string
}

export class ProgressOutput {
  #identifiers: readonly string[] = []
  #restored: readonly Run[] = []
  readonly #runs = new Map<string, Run>()
  readonly #lastText = new Map<string, string>()

  /** Sets the tickets whose runs the example waits for. */
  setTickets(identifiers: readonly string[]): void {
    this.#identifiers = identifiers
  }

  /** Sets the runs that were there before this start. Returns those that go on now, which take room from the others. */
  setEarlierRuns(runs: readonly Run[]): readonly Run[] {
    this.#restored = runs.filter((run) => !isOver(run))
    return this.#restored
  }

  /** Returns the line to print; undefined when nothing changed for a person. */
  onRunUpdate(run: Run, elapsedMs: number): RunLine | undefined {
    const { identifier } = run.ticket
    const isOwn = this.#identifiers.includes(identifier)
    if (!isOwn && !this.#restored.some(({ id }) => id === run.id)) return undefined
    if (isOwn) this.#runs.set(identifier, run)
    const text = statusText(run)
    if (this.#lastText.get(run.id) === text) return undefined
    this.#lastText.set(run.id, text)
    return { runId: run.id, text: `${formatSeconds(elapsedMs)} ${identifier.padEnd(8)} ${text}` }
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
      return `  ${identifier}: ${run === undefined ? 'no run yet' : statusText(run)}`
    })
    return lines.join('\n')
  }
}

export const isPublished = (run: Run): boolean => run.status === 'completed' && run.prUrl !== undefined

/** The result of a run, and its changes. @param truncate cuts a line at the width of the terminal */
export function describeResult(
  run: Run,
  diff: string,
  colors: Colors,
  truncate: (line: string) => string = (line) => line,
): string {
  const { ticket, result } = run
  const summary = result?.summary ?? ''
  const line = (name: string, text: string) => truncate(`  ${name.padEnd(13)} ${text}`)
  return [
    colors.bold(truncate(`${ticket.identifier}  ${replaceControls(ticket.title)}`)),
    ...(summary === '' ? [] : [line('summary', toSingleLine(summary))]),
    line('cost', describeCost(run)),
    line('pull request', `${pullName(run)}, ${countChanges(diff)}`),
    ...(result === undefined || result.artifacts.length === 0
      ? []
      : [line('artifacts', replaceControls(result.artifacts.join(', ')))]),
    ...diffLines(diff, colors, (text) => truncate(`  ${text}`)),
  ].join('\n')
}

/** Why a run has no pull request, with the end of its log. @param width of the terminal; undefined: lines stay whole */
export function describeFailure(
  run: Run,
  events: readonly RunEvent[],
  colors: Colors,
  width?: number,
): string {
  const why = run.error ?? (run.status === 'completed' ? 'no pull request was opened' : run.status)
  const sentence = `${run.ticket.identifier} ${run.status}: ${replaceControls(why)}`
  const texts = events.flatMap(eventTexts).slice(-LOG_LINES_MAX)
  return [
    ...wrapLines(sentence, width).map(colors.bad),
    ...(texts.length === 0 ? [] : ['  the end of its log:']),
    ...texts.map((text) =>
      colors.dim(width === undefined ? `    ${text}` : truncateEnd(`    ${text}`, width)),
    ),
  ].join('\n')
}

function wrapLines(text: string, width: number | undefined): readonly string[] {
  const lines = text.split('\n')
  return width === undefined ? lines : lines.flatMap((line) => wrapWords(line, width))
}

/** The dollars when they are known, otherwise the tokens. */
export function describeCost({ costs, costTotals }: Run): string {
  if (costTotals === undefined) return 'unknown'
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, costUsd, estimated } = costTotals
  const read = inputTokens + cacheReadTokens + cacheWriteTokens
  const amount =
    costUsd === undefined ? `${read} tokens in, ${outputTokens} out` : formatMoney({ costUsd, estimated })
  const isMadeUp = costs.length > 0 && costs.every(({ source }) => source === 'example')
  return isMadeUp ? `made up (${amount}): no model was asked` : amount
}

// ---- formatting -------------------------------------------------------------------------------------------------------

const isOver = (run: Run): boolean => OVER.includes(run.status)

function statusText(run: Run): string {
  const { status, queueReason, error, prUrl } = run
  if (status === 'queued' && queueReason !== undefined) return `queued: ${toSingleLine(queueReason)}`
  if (status === 'failed') return `failed: ${toSingleLine(error ?? 'no reason was given')}`
  if (status === 'completed' && prUrl !== undefined) return `completed, ${pullName(run)}`
  return status
}

/** `greeter#4`, which people know a pull request by; its address when its number is unknown. */
function pullName({ pull, prUrl = 'none' }: Run): string {
  if (pull === undefined) return replaceControls(prUrl)
  return replaceControls(`${pull.remote.split('/').at(-1)}#${pull.number}`)
}

function countChanges(diff: string): string {
  const lines = diff.split('\n')
  const count = (pattern: RegExp) => lines.filter((line) => pattern.test(line)).length
  const files = count(/^diff /)
  return `${files} ${files === 1 ? 'file' : 'files'}, +${count(/^\+(?!\+\+ )/)} -${count(/^-(?!-- )/)}`
}

function formatSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(1).padStart(4)}s`
}

const toSingleLine = (text: string): string =>
  shortenEnd(collapseSpaces(replaceControls(text)), TEXT_LINE_CHARS_MAX)

function diffLines(diff: string, colors: Colors, truncate: (line: string) => string): string[] {
  const lines = replaceControls(diff).trimEnd().split('\n').flatMap(readableDiffLine)
  const shown = lines.slice(0, DIFF_LINES_MAX).map((line) => colorDiffLine(line, truncate(line), colors))
  const more = lines.length - shown.length
  return more === 0 ? shown : [...shown, colors.dim(truncate(`… ${more} more lines`))]
}

/** Replaces git's headers by one line for each file. */
function readableDiffLine(line: string): string[] {
  const file = /^diff --git .* b\/(.*)$/.exec(line)?.[1]
  if (file !== undefined) return [file]
  return /^(index |--- |\+\+\+ |new file|deleted file|@@)/.test(line) ? [] : [line]
}

function colorDiffLine(line: string, shown: string, colors: Colors): string {
  if (line.startsWith('+')) return colors.good(shown)
  if (line.startsWith('-')) return colors.bad(shown)
  return line.startsWith(' ') ? shown : colors.bold(shown)
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
