/** The tools that only read: each asks the host, and makes the answer short enough for a model. */

import type { Client } from '../../client/client.ts'
import type { ClientConnection } from '../../client/connection.ts'
import { explanationOf } from '../../client/explanation.ts'
import { hasEnded } from '../../client/run-events.ts'
import { ticketInCommand } from '../../core/run/name-in-commands.ts'
import { LIST_LIMIT_MAX, MCP_PAGE_DEFAULT } from '../../protocol/limits.ts'
import type { McpInput, McpToolName } from '../../protocol/mcp-tools.ts'
import type { PullFile } from '../../protocol/pulls.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import { ACTIVE } from '../client/active-statuses.ts'
import { findRun, findTicket } from '../client/names.ts'
import { findPull, formatPull } from '../client/pull-names.ts'
import { readCosts } from '../commands/costs.ts'
import { readExplanation } from '../commands/explain.ts'
import { EXIT, ExitError, unwrapOrExit } from '../exit.ts'
import { type Present, parseSince } from '../output/times.ts'
import { fitItems, fitRecord, fitText, ITEM_BYTES_MAX, pageOf } from './fit.ts'
import { readLogPage } from './log-page.ts'
import type { ToolCall } from './session.ts'
import { summarizePull, summarizeRun, summarizeTicket, summarizeWorker } from './summaries.ts'
import { waitForRun } from './wait-for-run.ts'

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
    const { shown, ...rest } = pageOf(await client.listTickets(), input, summarizeTicket)
    return { tickets: shown, ...rest }
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
      throw new ExitError(EXIT.refused, `${formatPull(name)} does not change this path`, 'pulls_show')
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
