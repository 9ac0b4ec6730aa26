/** The lines of `switchyard runs show`: where the run is, who works on it, what it says and what it costs. */

import { agentName, withAgentNames } from '../../../client/agent-names.ts'
import { priorityWord } from '../../../client/priorities.ts'
import { beginningOf } from '../../../client/run-beginning.ts'
import { branchFor } from '../../../core/run/branch.ts'
import { changedNothing, UNCHANGED_WORDS } from '../../../protocol/changed-nothing.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { CostEntry, CostModelUsage } from '../../../protocol/cost.ts'
import { formatDuration } from '../../../protocol/format.ts'
import type { Run } from '../../../protocol/run.ts'
import { formatCost, formatTokens, type ShownCost, tokensRead } from '../../output/amounts.ts'
import type { StyledStream } from '../../output/styled-stream.ts'
import { columnsOf, keepColors, padEnd, padStart, wrapWords } from '../../output/text-width.ts'
import { formatAge, formatClock, formatClockSeconds } from '../../output/times.ts'
import type { CommandContext } from '../command/run-command.ts'

const NAME_COLUMNS = 11

interface RunDetails {
  /** The newest line of the agent. */
  readonly last: string | undefined
  readonly repos: ServiceConfig['repos']
}

export function runLines(context: CommandContext, run: Run, { last, repos }: RunDetails): string[] {
  const { output, present } = context
  const { stdout } = output
  const { text = '', paint = (plain: string) => plain } = stdout.glyph(run.status)
  const mark = text === '' ? '' : `${paint(text)} `
  const title = stdout.clean(`${run.ticket.identifier}  ${run.ticket.title}`)
  const { offset, now } = present()
  const begun = Date.parse(beginningOf(run))
  const clock = formatClock(begun, present())
  // A day says more than seconds.
  const queued = clock.includes(' ') ? clock : formatClockSeconds(begun, offset)
  const facts: [string, string | undefined][] = [
    ['run', `${run.id}, queued ${queued}`],
    ['waits', withAgentNames(run.queueReason ?? run.waitReason ?? '')],
    ['result', changedNothing(run) ? UNCHANGED_WORDS : undefined],
    ['error', run.error],
    ['ticket', [run.ticket.url, priorityWord(run.ticket.priority)].filter(Boolean).join(', ') || undefined],
    ['repo', repoOf(run, repos)],
    ['worker', workerOf(run)],
    ['said last', last === undefined ? undefined : keepColors(last, false)],
    [
      'pull',
      run.prUrl === undefined
        ? undefined
        : `${run.prUrl}${run.prState === undefined ? '' : `, ${run.prState}`}`,
    ],
  ]
  const width = stdout.width - (mark === '' ? 0 : 2)
  return [
    mark + stdout.alignEnds(title, stateOf(run, now), width),
    ...facts
      .filter((fact): fact is [string, string] => fact[1] !== undefined && fact[1] !== '')
      .flatMap(([heading, value]) => factLines(stdout, heading, value)),
    ...costLines(stdout, run),
  ]
}

/** Facts whose value is an address; a terminal lets people follow one that it wraps itself. */
const ADDRESSES: readonly string[] = ['ticket', 'pull']

/** The agent's words are cut; ids and reasons go on in the next line. */
function factLines(stdout: StyledStream, heading: string, value: string): string[] {
  const text = stdout.clean(value)
  if (heading === 'said last') return [stdout.truncate(heading.padEnd(NAME_COLUMNS) + text)]
  const isWrapped = stdout.isTerminal && !ADDRESSES.includes(heading)
  const lines = isWrapped ? wrapWords(text, stdout.width - NAME_COLUMNS) : [text]
  return lines.map((line, at) => (at === 0 ? heading : '').padEnd(NAME_COLUMNS) + line)
}

function stateOf(run: Run, now: number): string {
  const from = run.startedAt ?? beginningOf(run)
  if (run.finishedAt === undefined) return `${run.status} for ${formatAge(now - Date.parse(from))}`
  return `${run.status} in ${formatDuration(Date.parse(run.finishedAt) - Date.parse(from))}`
}

/** `api (acme/api), branch switchyard/eng-231 from main`. */
function repoOf({ ticket, pull, result }: Run, repos: RunDetails['repos']): string | undefined {
  const ofPull = Object.entries(repos).find(([, { remote }]) => remote === pull?.remote)
  const key = ticket.repo ?? ofPull?.[0]
  const mapping = key === undefined ? undefined : repos[key]
  const remote = pull?.remote ?? mapping?.remote
  const repo = [key, remote === undefined ? undefined : `(${remote})`].filter(Boolean).join(' ')
  const base = mapping?.defaultBranch
  const branch = pull?.branch ?? result?.branch ?? (repo === '' ? undefined : branchFor(ticket, base))
  const from = base === undefined ? '' : ` from ${base}`
  return [repo, branch === undefined ? undefined : `branch ${branch}${from}`].filter(Boolean).join(', ')
}

function workerOf({ sandbox, costs, agentSessionId }: Run): string | undefined {
  const worker = sandbox.workerName ?? sandbox.workerId
  const provider = costs.at(-1)?.provider
  return [
    worker,
    sandbox.provider,
    provider === undefined ? undefined : agentName(provider),
    agentSessionId === undefined ? undefined : `session ${agentSessionId.slice(0, 8)}`,
  ]
    .filter(Boolean)
    .join(', ')
}

// ---- costs ---------------------------------------------------------------------------------------------------------

const GAP = '  '
const LABEL_COLUMNS_MIN = 4

/** `run  agentA  sonnet  1.9M in  29k out  $1.84, reported`, aligned. */
function costLines(stdout: StyledStream, { costs, costTotals }: Run): string[] {
  const rows = costs.flatMap(rowsOf)
  if (rows.length > 1 && costTotals !== undefined)
    rows.push(['total', '', '', ...tokensOf(costTotals), amountOf(costTotals)])
  const whole = rows.map((row) => row.map((cell) => stdout.clean(cell)))
  const lines = alignRows(whole)
  // The amount matters most, so the tokens give way to it.
  const isWide = stdout.isTerminal && lines.some((line) => columnsOf(line) > stdout.width)
  return isWide ? alignRows(whole.map((row) => row.with(3, '').with(4, ''))) : lines
}

function alignRows(cells: readonly (readonly string[])[]): string[] {
  const widths = (cells[0] ?? []).map((_, at) =>
    Math.max(at === 0 ? LABEL_COLUMNS_MIN : 0, ...cells.map((row) => columnsOf(row[at] ?? ''))),
  )
  return cells.map((row, at) => {
    const aligned = row
      .map((cell, column) => alignCell(cell, column, widths[column] ?? 0))
      .filter((_, column) => widths[column] !== 0)
    return `${(at === 0 ? 'costs' : '').padEnd(NAME_COLUMNS)}${aligned.join(GAP)}`.trimEnd()
  })
}

/** Token counts end at one column, so that a larger one is seen. */
const alignCell = (cell: string, column: number, width: number): string =>
  column === 3 || column === 4 ? padStart(cell, width) : padEnd(cell, width)

function rowsOf(entry: CostEntry): string[][] {
  const { label, provider, model, estimated, breakdown = [] } = entry
  const source = entry.source ?? (estimated ? 'estimated' : 'reported')
  const parts: readonly (Omit<CostModelUsage, 'model'> & { readonly model?: string | undefined })[] =
    breakdown.length === 0 ? [{ ...entry, model }] : breakdown
  return parts.map((part) => {
    const amount = amountOf({ ...part, estimated })
    const billed = part.costUsd === undefined ? amount : `${amount}, ${source}`
    return [label, agentName(provider), part.model ?? '-', ...tokensOf(part), billed]
  })
}

type Tokens = Parameters<typeof tokensRead>[0]

const tokensOf = (part: Omit<Tokens, 'estimated'>): string[] => [
  `${formatTokens(tokensRead({ ...part, estimated: false }))} in`,
  `${formatTokens(part.outputTokens)} out`,
]

/** The tokens stand beside the amount, so an unknown amount is `-`. */
const amountOf = (cost: ShownCost): string => (cost.costUsd === undefined ? '-' : formatCost(cost))
