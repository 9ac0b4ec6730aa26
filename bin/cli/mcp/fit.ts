/**
 * Makes results fit into `MCP_RESULT_BYTES_MAX`: a list ends earlier and says how to read on, a record's long texts
 * and lists are shortened, a text is given in parts. A list holds short forms of its records.
 */

import { truncate } from '../../../core/safe-text.ts'
import { MCP_PAGE_DEFAULT, MCP_RESULT_BYTES_MAX } from '../../../protocol/limits.ts'
import type { PullSummary } from '../../../protocol/pulls.ts'
import type { Run, Ticket } from '../../../protocol/run.ts'
import { jsonBytes } from '../../../protocol/text-budget.ts'
import type { WorkerView } from '../../../protocol/worker.ts'

/** The rest is for the fields beside a list or a text. */
const CONTENT_BYTES_MAX = MCP_RESULT_BYTES_MAX - 2 * 1024

/** A text with at most so many characters, and the number of those that were left out. */
export function shorten(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text
  const kept = truncate(text, charsMax)
  return `${kept}… (${text.length - kept.length} more characters)`
}

// ---- lists -------------------------------------------------------------------------------------------------------

/** As many items from the beginning as fit. */
export function fitItems<T>(items: readonly T[]): T[] {
  let bytes = 0
  const end = items.findIndex((item) => {
    bytes += jsonBytes(item) + 1
    return bytes > CONTENT_BYTES_MAX
  })
  return end < 0 ? [...items] : items.slice(0, end)
}

interface PageRequest {
  readonly offset?: number
  readonly limit?: number
}

/** `readOn` holds the arguments for the next part; it is absent at the end of the list. */
export function pageOf<T>(
  items: readonly T[],
  { offset = 0, limit = MCP_PAGE_DEFAULT }: PageRequest,
  summarize: (item: T) => object,
) {
  const shown = fitItems(items.slice(offset, offset + limit).map(summarize))
  const next = offset + shown.length
  return { shown, total: items.length, readOn: next < items.length ? { offset: next } : undefined }
}

// ---- records -----------------------------------------------------------------------------------------------------

/** Tried one after the other: the longest texts, and the longest lists. */
const SIZES: readonly (readonly [chars: number, items: number])[] = [
  [16_384, 1_000],
  [8_192, 200],
  [4_096, 100],
  [2_048, 50],
  [1_024, 25],
  [512, 10],
  [128, 5],
  [64, 1],
]

/** A list of such records has several of them in a result. */
export const ITEM_BYTES_MAX = MCP_RESULT_BYTES_MAX / 8

/** The record, shortened where it is too long; then `shortened` names the command for the whole. */
export function fitRecord(record: object, command: string, bytesMax = MCP_RESULT_BYTES_MAX): object {
  if (jsonBytes(record) <= bytesMax) return record
  const note = `Long texts and lists are shortened; in full: ${command}`
  for (const [chars, items] of SIZES) {
    const shortened = { ...(shortenValue(record, chars, items) as object), shortened: note }
    if (jsonBytes(shortened) <= bytesMax) return shortened
  }
  return { shortened: `The record is too long; in full: ${command}` }
}

function shortenValue(value: unknown, chars: number, items: number): unknown {
  if (typeof value === 'string') return shorten(value, chars)
  if (typeof value !== 'object' || value === null) return value
  if (!Array.isArray(value))
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key, shortenValue(inner, chars, items)]),
    )
  const kept = value.slice(0, items).map((item) => shortenValue(item, chars, items))
  return value.length > items ? [...kept, `… (${value.length - items} more)`] : kept
}

// ---- texts -------------------------------------------------------------------------------------------------------

interface TextPart {
  readonly text: string
  readonly readOn: { readonly offset: number } | undefined
}

/** The part of a text from an offset on, at whole lines where it can be. */
export function fitText(whole: string, offset: number): TextPart {
  let text = truncate(whole.slice(offset), CONTENT_BYTES_MAX)
  while (jsonBytes(text) > CONTENT_BYTES_MAX) text = truncate(text, Math.floor(text.length * 0.8))
  if (offset + text.length >= whole.length) return { text, readOn: undefined }
  const lines = text.lastIndexOf('\n') + 1
  const part = lines > 0 ? text.slice(0, lines) : text
  return { text: part, readOn: { offset: offset + part.length } }
}

// ---- short forms of records ----------------------------------------------------------------------------------------

/** A text inside a record of a list, and a text of a log. */
const MCP_TITLE_CHARS_MAX = 200
const LABELS_SHOWN_MAX = 10

const short = (text: string | undefined): string | undefined =>
  text === undefined ? undefined : shorten(text, MCP_TITLE_CHARS_MAX)

/** Fields without a value are absent from the JSON. */
export function summarizeRun(run: Run): object {
  const { id, ticket, status, sandbox, costTotals } = run
  return {
    run: id,
    ticket: ticket.identifier,
    title: short(ticket.title),
    status,
    queueReason: short(run.queueReason),
    waitReason: short(run.waitReason),
    error: short(run.error),
    repo: ticket.repo,
    worker: sandbox.workerName,
    createdAt: run.createdAt,
    startedAt: run.startedAt,
    finishedAt: run.finishedAt,
    costUsd: costTotals?.costUsd,
    costIsEstimated: costTotals?.costUsd === undefined ? undefined : costTotals.estimated,
    prUrl: run.prUrl,
    prState: run.prState,
  }
}

export function summarizeTicket(ticket: Ticket): object {
  return {
    ticket: ticket.identifier,
    title: short(ticket.title),
    state: short(ticket.state),
    priority: ticket.priority,
    repo: ticket.repo,
    labels: ticket.labels.slice(0, LABELS_SHOWN_MAX).map(short),
    url: ticket.url === '' ? undefined : ticket.url,
  }
}

export function summarizePull(pull: PullSummary): object {
  const { repo, number, title, state, author, url, updatedAt } = pull
  const { checksState: checks, additions, deletions, changedFiles, commentCount: comments } = pull
  return {
    pull: `${repo}#${number}`,
    title: short(title),
    state,
    checks,
    additions,
    deletions,
    changedFiles,
    comments,
    author: short(author),
    url,
    updatedAt,
  }
}

export function summarizeWorker({
  id,
  name,
  state,
  connection,
  activeRuns,
  capabilities,
}: WorkerView): object {
  return { worker: id, name, state, connection, activeRuns, slots: capabilities?.maxConcurrency }
}
