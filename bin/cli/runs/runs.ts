/** `switchyard runs list` and `runs show`: the runs in a table, and one run in full. */
import { withAgentNames } from '../../../client/agent-names.ts'
import type { Client } from '../../../client/client.ts'
import { beginningOf } from '../../../client/run-beginning.ts'
import { hasEnded, hasUnpublishedWork } from '../../../client/run-events.ts'
import { publishAnywayCommand } from '../../../core/run/found-keys.ts'
import { runInCommand, showPullCommand } from '../../../core/run/name-in-commands.ts'
import { bundleAmong, fetchBundleCommand } from '../../../protocol/kept-bundle.ts'
import type { Run, RunStatus } from '../../../protocol/run.ts'
import { formatCost } from '../../output/amounts.ts'
import type { Output } from '../../output/output.ts'
import { RUN_DIGITS, shortenIds } from '../../output/short-names.ts'
import type { TableColumn } from '../../output/table.ts'
import { formatAge } from '../../output/times.ts'
import { usageError } from '../../process/exit.ts'
import { findRun, findTicket } from '../command/names.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { ACTIVE } from '../status/host-records.ts'
import { lastLineOf } from './run-lines.ts'

export interface ListOptions extends ClientOptions {
  readonly status?: readonly RunStatus[] | undefined
  readonly ticket?: string | undefined
  readonly limit?: string | undefined
  readonly all?: boolean | undefined
}

const FINISHED: readonly RunStatus[] = ['completed', 'failed', 'cancelled']
const FINISHED_SHOWN = 20
const PAGE = 200
/** From here on a table has room for the reason why a run waits. */
const WIDE_COLUMNS = 120
const TITLE_COLUMNS_MIN = 12

export async function list(context: CommandContext<ListOptions>): Promise<void> {
  const { client, output, options } = context
  const runs = await readRuns(client, options)
  // A ticket without a run is known all the same.
  if (runs.length === 0 && options.ticket !== undefined) await findTicket(client, options.ticket)
  output.list({
    records: runs,
    id: ({ id }) => id,
    columns: runColumns(context, runs),
    mark: ({ status }) => output.stdout.glyph(status),
    empty: 'No runs. Next: switchyard tickets, or switchyard start "WORDS"',
  })
}

async function readRuns(
  client: Client,
  { status, ticket, limit, all }: ListOptions,
): Promise<readonly Run[]> {
  const asked = { ...(ticket === undefined ? {} : { ticket }) }
  if (status !== undefined || limit !== undefined || all === true)
    return await readPages(
      client,
      { ...asked, ...(status === undefined ? {} : { status }) },
      parseLimit(limit),
    )
  const [active, finished] = await Promise.all([
    readPages(client, { ...asked, status: ACTIVE }),
    readPages(client, { ...asked, status: FINISHED }, FINISHED_SHOWN),
  ])
  return [...active, ...finished].sort((a, b) => (a.id < b.id ? 1 : -1))
}

function parseLimit(text: string | undefined): number {
  if (text === undefined) return Number.POSITIVE_INFINITY
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw usageError(`--limit ${text} is no number of runs`, 'switchyard runs list --limit 50')
}

async function readPages(
  client: Client,
  query: { readonly status?: readonly RunStatus[]; readonly ticket?: string },
  most = Number.POSITIVE_INFINITY,
): Promise<Run[]> {
  const runs: Run[] = []
  const { status, ticket } = query
  while (runs.length < most) {
    const before = runs.at(-1)?.id
    const page = await client.listRuns({
      limit: Math.min(PAGE, most - runs.length),
      ...(status === undefined ? {} : { status: [...status] }),
      ...(ticket === undefined ? {} : { ticket }),
      ...(before === undefined ? {} : { before }),
    })
    runs.push(...page)
    if (page.length < PAGE) break
  }
  return runs
}

export function runColumns(
  { output, present }: Pick<CommandContext, 'output' | 'present'>,
  runs: readonly Run[],
): TableColumn<Run>[] {
  const { now } = present()
  const short = shortenIds(
    runs.map(({ id }) => id),
    RUN_DIGITS,
  )
  const isWide = output.stdout.width >= WIDE_COLUMNS
  return [
    { heading: 'TICKET', cell: ({ ticket }) => ticket.identifier },
    {
      heading: 'TITLE',
      cell({ ticket, status, queueReason, waitReason }) {
        const reason = withAgentNames(queueReason ?? waitReason ?? '')
        return isWide && reason !== '' ? `${ticket.title}  ${status}: ${reason}` : ticket.title
      },
      plain: ({ ticket }) => ticket.title,
      shrinksTo: TITLE_COLUMNS_MIN,
      shrinks: 'end',
    },
    { heading: 'STATE', cell: ({ status }) => status },
    {
      heading: 'AGE',
      cell: (run) => formatAge(now - Date.parse(beginningOf(run))),
      plain: beginningOf,
      align: 'right',
    },
    { heading: 'COST', cell: ({ costTotals }) => formatCost(costTotals), align: 'right', givesWay: 3 },
    { heading: 'WORKER', cell: ({ sandbox }) => sandbox.workerName ?? '-', givesWay: 2 },
    { heading: 'RUN', cell: ({ id }) => short.get(id) ?? id, plain: ({ id }) => id, givesWay: 1 },
  ]
}

// ---- one run -------------------------------------------------------------------------------------------------------

export async function show(context: CommandContext, name: string): Promise<void> {
  const { client, output } = context
  const run = await findRun(client, name)
  if (output.format === 'json') output.json(run)
  else if (output.format === 'id') output.data(run.id)
  else {
    const [tail, { repos }] = await Promise.all([
      client.readRunEvents({ id: run.id, tail: LAST_EVENTS }),
      client.readConfig(),
    ])
    // The names of branches are derived with hashes, which other commands don't load.
    const { runLines } = await import('./run-facts.ts')
    for (const line of runLines(context, run, { last: lastLineOf(tail), repos })) output.data(line)
    const [next] = nextCommands(run)
    if (next !== undefined) output.next(next)
  }
}

/** Among so many events there is nearly always something that the agent said. */
const LAST_EVENTS = 50

/** The commands that help with a run in this state, the likeliest first. */
export function nextCommands(run: Run): string[] {
  const { status, prState } = run
  const name = runInCommand(run)
  if (status === 'queued')
    return run.foundKeys === undefined ? [`switchyard explain ${name}`] : [publishAnywayCommand(run)]
  if (!hasEnded({ status })) return [`switchyard logs ${name} -f`]
  const bundle = run.error === undefined ? undefined : bundleAmong(run.result?.artifacts)
  const fetched = bundle === undefined ? [] : [fetchBundleCommand(run, bundle)]
  const publish = run.foundKeys === undefined ? `switchyard retry ${name}` : publishAnywayCommand(run)
  if (hasUnpublishedWork(run)) return [publish, `switchyard logs ${name}`, ...fetched]
  if (status !== 'completed') return [...fetched, `switchyard logs ${name}`, `switchyard retry ${name}`]
  if (fetched.length > 0) return fetched
  return prState === 'open' ? [showPullCommand(run)] : [`switchyard logs ${name}`]
}

/** The line for a run that has just changed: `ENG-251 queued`. */
export const describeRun = (output: Output, { ticket, status }: Run): string =>
  output.stdout.clean(`${ticket.identifier} ${status}`)
