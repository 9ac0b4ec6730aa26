/** The tools that only read: each asks the host, and makes the answer short enough for a model. */
import type { Client } from '../../../client/client.ts'
import type { ClientConnection } from '../../../client/connection.ts'
import { explanationOf } from '../../../client/explanation.ts'
import { type EventRange, hasEnded, readEvents } from '../../../client/run-events.ts'
import { ticketInCommand } from '../../../core/run/name-in-commands.ts'
import {
  LIST_LIMIT_MAX,
  MCP_LOG_EVENTS_DEFAULT,
  MCP_PAGE_DEFAULT,
  MCP_RESULT_BYTES_MAX,
  MCP_WAIT_SECONDS_DEFAULT,
} from '../../../protocol/limits.ts'
import type { McpInput, McpToolName } from '../../../protocol/mcp-tools.ts'
import type { PullFile } from '../../../protocol/pulls.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { jsonBytes } from '../../../protocol/text-budget.ts'
import { keepColors } from '../../output/text-width.ts'
import { type Present, parseSince } from '../../output/times.ts'
import { refusedError, unwrapOrExit } from '../../process/exit.ts'
import { findRun, findTicket } from '../command/names.ts'
import { readCosts } from '../costs/costs.ts'
import { findPull, formatPull } from '../pulls/pull-names.ts'
import { lineOf } from '../runs/run-lines.ts'
import { watchRuns } from '../runs/watch-runs.ts'
import { readExplanation } from '../status/explain.ts'
import { ACTIVE } from '../status/host-records.ts'
import {
  fitItems,
  fitRecord,
  fitText,
  ITEM_BYTES_MAX,
  pageOf,
  shorten,
  summarizePull,
  summarizeRun,
  summarizeTicket,
  summarizeWorker,
} from './fit.ts'
import type { ToolCall } from './session.ts'

export interface ToolContext {
  readonly client: Client
  readonly connection: ClientConnection
  readonly present: () => Present
}

/** The functions of tools return the result, and throw what a command would print as an error. */
export type ToolFunctions<Names extends McpToolName> = {
  readonly [N in Names]: (context: ToolContext, input: McpInput<N>, call: ToolCall) => Promise<object>
}

type ReadingTools =
  | 'status'
  | 'attention'
  | 'explain'
  | 'costs'
  | `tickets_${'list' | 'show'}`
  | `runs_${'list' | 'show' | 'logs' | 'wait'}`
  | `pulls_${'list' | 'show' | 'diff' | 'checks'}`
  | 'workers_list'

export const readingTools: ToolFunctions<ReadingTools> = {
  status: ({ client }) => readStatus(client),

  async attention({ client }, input) {
    const { items } = await client.readAttention()
    const { shown, ...rest } = pageOf(items, input, (item) =>
      fitRecord(item, 'switchyard api GET /api/attention', ITEM_BYTES_MAX),
    )
    return { needsYou: shown, ...rest }
  },

  async tickets_list({ client }, input) {
    const { offset = 0, limit = MCP_PAGE_DEFAULT } = input
    const [tickets, { total }] = await Promise.all([
      client.listTickets({ limit, skip: offset }),
      client.summarizeTickets(),
    ])
    const shown = fitItems(tickets.map(summarizeTicket))
    const next = offset + shown.length
    return { tickets: shown, total, readOn: next < total ? { offset: next } : undefined }
  },

  async tickets_show({ client }, input) {
    const ticket = await findTicket(client, input.ticket)
    return fitRecord(ticket, `switchyard tickets show ${ticketInCommand(ticket)} --json`)
  },

  async runs_list({ client }, { limit = MCP_PAGE_DEFAULT, ...input }) {
    // A run beyond those asked for says whether there are more.
    const runs = await client.listRuns({ ...input, limit: limit + 1 })
    const shown = fitItems(runs.slice(0, limit).map(summarizeRun))
    const last = runs[shown.length - 1]
    const isMore = shown.length < runs.length && last !== undefined
    return { runs: shown, readOn: isMore ? { before: last.id } : undefined }
  },

  async runs_show({ client }, input) {
    const { costs: _, ...run } = await findRun(client, input.run)
    return fitRecord(run, `switchyard runs show ${run.id} --json`)
  },

  runs_logs: readLogPage,

  runs_wait: waitForRun,

  async explain({ client }, { name }) {
    const answer = await readExplanation(client, name)
    const { run, ticket, gates } = answer
    const summary =
      run === undefined ? (ticket === undefined ? {} : summarizeTicket(ticket)) : summarizeRun(run)
    // An ended run waits for nothing: its error explains it.
    const shown = run !== undefined && hasEnded(run) ? undefined : gates
    const record = { answer: explanationOf(answer, name), ...summary, gates: shown }
    return fitRecord(record, `switchyard explain ${quoteWord(run?.id ?? ticket?.identifier ?? name)} --json`)
  },

  async pulls_list({ client }, { repo, state, ...input }) {
    const { pulls, errors } = await client.listPulls()
    const fitting = pulls
      .filter((each) => repo === undefined || [each.repo, each.remote].includes(repo))
      .filter((each) => state === undefined || each.state === state)
    const { shown, ...rest } = pageOf(fitting, input, summarizePull)
    return {
      pulls: shown,
      ...rest,
      unreadable: errors.length === 0 ? undefined : errors.slice(0, ERRORS_SHOWN_MAX),
    }
  },

  async pulls_show({ client }, input) {
    const name = await findPull(client, [input.pull])
    const { files, ...detail } = await client.readPull(name)
    const names = files.map(({ patch: _, ...file }) => file)
    return fitRecord(
      { ...detail, files: names },
      `switchyard pulls show ${quoteWord(name.repo)} ${name.number} --json`,
    )
  },

  async pulls_diff({ client }, input) {
    const name = await findPull(client, [input.pull])
    const { files } = await client.readPull(name)
    const chosen = input.path === undefined ? files : files.filter(({ path }) => path === input.path)
    if (chosen.length === 0 && input.path !== undefined)
      throw refusedError(`${formatPull(name)} does not change this path`, 'pulls_show')
    const { text, readOn } = fitText(chosen.map(formatFile).join(''), input.offset ?? 0)
    return { pull: formatPull(name), files: chosen.length, diff: text, readOn }
  },

  async pulls_checks({ client }, input) {
    const name = await findPull(client, [input.pull])
    const { checks, checksLookupFailed } = await client.readPull(name)
    const command = `switchyard pulls checks ${quoteWord(name.repo)} ${name.number} --json`
    return fitRecord({ pull: formatPull(name), checks, checksLookupFailed }, command)
  },

  async workers_list({ client }, input) {
    const { workers } = await client.listWorkers()
    const { shown, ...rest } = pageOf(workers, input, (worker) =>
      fitRecord(worker, `switchyard workers show ${worker.id} --json`, ITEM_BYTES_MAX),
    )
    return { workers: shown, ...rest }
  },

  async costs(context, { by = 'day', since = SINCE_DEFAULT }) {
    const from = unwrapOrExit(parseSince(since, 'since', context.present()))
    const { sums, total, unpriced } = await readCosts(context, { by, since: from })
    const record = {
      by,
      since: new Date(from).toISOString(),
      rows: sums,
      total,
      runsWithoutAmount: new Set(unpriced.map(({ run }) => run.id)).size,
    }
    return fitRecord(record, `switchyard costs --by ${by} --json`)
  },
}

const SINCE_DEFAULT = '7d'
const ERRORS_SHOWN_MAX = 5
const STATUS_ITEMS_MAX = 10

async function readStatus(client: Client): Promise<object> {
  const [health, tracker, config, { workers }, runs, { items }] = await Promise.all([
    client.health(),
    client.readTrackerStatus(),
    client.readConfig(),
    client.listWorkers(),
    client.listRuns({ status: [...ACTIVE], limit: LIST_LIMIT_MAX }),
    client.readAttention(),
  ])
  const queued = runs.filter(({ status }) => status === 'queued').length
  const record = {
    version: health.version,
    paused: config.policy.paused === true,
    tracker,
    counts: { active: runs.length - queued, queued, needsYou: items.length, workers: workers.length },
    needsYou: items.slice(0, STATUS_ITEMS_MAX),
    runs: runs.slice(0, STATUS_ITEMS_MAX).map(summarizeRun),
    workers: workers.slice(0, STATUS_ITEMS_MAX).map(summarizeWorker),
  }
  return fitRecord(record, 'switchyard status --json')
}

function formatFile({ path, previousPath, additions, deletions, patch }: PullFile): string {
  const from = previousPath === undefined ? '' : ` (was ${previousPath})`
  const changes = patch === undefined ? '(no text)\n' : patch.endsWith('\n') ? patch : `${patch}\n`
  return `${path}${from}  +${additions} -${deletions}\n${changes}`
}

// ---- the log of a run ----------------------------------------------------------------------------------------------

const MCP_LOG_TEXT_CHARS_MAX = 2_000
/** The rest is for the fields beside the lines. */
const LINES_BYTES_MAX = MCP_RESULT_BYTES_MAX - 2 * 1024

interface LoggedEvent {
  readonly index: number
  readonly lines: readonly string[]
  readonly bytes: number
}

/** Reads a part of a run's log that fits into a result, with the arguments for the parts before and after it. */
async function readLogPage(
  { client, connection }: { readonly client: Client; readonly connection: ClientConnection },
  { run: name, before, after, limit = MCP_LOG_EVENTS_DEFAULT }: McpInput<'runs_logs'>,
): Promise<object> {
  const run = await findRun(client, name)
  const range = rangeOf(before, after, limit)
  const page = await readPage(connection, run.id, range)
  const [first, last] = [page[0], page.at(-1)]
  return {
    run: run.id,
    ticket: run.ticket.identifier,
    status: run.status,
    lines: page.flatMap(({ lines }) => lines),
    earlier: first === undefined || first.index === 0 ? undefined : { before: first.index },
    later: last === undefined ? undefined : { after: last.index },
  }
}

function rangeOf(before: number | undefined, after: number | undefined, limit: number): EventRange {
  // The host refuses both together, and names them.
  if (before !== undefined) return { before, limit, ...(after === undefined ? {} : { after }) }
  return after === undefined ? { tail: limit } : { after, limit }
}

/** Reading forwards stops when the page is full; otherwise the page keeps the last events. */
async function readPage(
  connection: ClientConnection,
  runId: string,
  range: EventRange,
): Promise<readonly LoggedEvent[]> {
  const page: LoggedEvent[] = []
  let bytes = 0
  for await (const event of readEvents(connection, runId, range)) {
    const logged = logEvent(event)
    if (range.after !== undefined && page.length > 0 && bytes + logged.bytes > LINES_BYTES_MAX) break
    page.push(logged)
    bytes += logged.bytes
    while (bytes > LINES_BYTES_MAX && page.length > 1) bytes -= page.shift()?.bytes ?? 0
  }
  return page
}

/** Events that say nothing to people have no lines. */
function logEvent(event: RunEvent): LoggedEvent {
  const line = lineOf(event)
  if (line === undefined) return { index: event.index, lines: [], bytes: 0 }
  const time = event.at.slice('2026-01-31T'.length, '2026-01-31T12:00:00'.length)
  const head = line.mark === '' ? time : `${time} ${line.mark}`
  const text = [line.text, line.reason].filter(Boolean).join(': ')
  const lines = shorten(text, MCP_LOG_TEXT_CHARS_MAX)
    .split('\n')
    .map((part) => `${head} ${keepColors(part, false)}`)
  return { index: event.index, lines, bytes: jsonBytes(lines) }
}

// ---- waiting for a run ---------------------------------------------------------------------------------------------

/** Pause between two reports of progress. Clients start their time limit anew at each. */
const MCP_PROGRESS_MS = 5_000

/** `runs_wait`: waits until a run has ended, and reports progress meanwhile. */
async function waitForRun(
  { client, connection }: { readonly client: Client; readonly connection: ClientConnection },
  { run: name, timeoutSeconds = MCP_WAIT_SECONDS_DEFAULT }: McpInput<'runs_wait'>,
  call: ToolCall,
): Promise<object> {
  let latest = await findRun(client, name)
  const begun = performance.now()
  const report = () => {
    const seconds = (performance.now() - begun) / 1_000
    call.report(seconds, timeoutSeconds, describeState(latest))
  }
  const reports = setInterval(report, MCP_PROGRESS_MS)
  try {
    const { allEnded, runs } = await watchRuns(connection, [latest], {
      signal: call.signal,
      timeoutMs: timeoutSeconds * 1_000,
      onLive: report,
      onChange: (run) => {
        latest = run
        report()
      },
    })
    const [run = latest] = runs
    return { ended: allEnded, ...summarizeRun(run), readOn: allEnded ? undefined : { run: run.id } }
  } finally {
    clearInterval(reports)
  }
}

const describeState = ({ ticket, status, queueReason }: Run): string =>
  `${ticket.identifier} ${status}${queueReason === undefined ? '' : `: ${queueReason}`}`
