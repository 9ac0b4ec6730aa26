/** The lines of `switchyard status`: counts, services and workers, and last what needs a person. */
import { withAgentNames } from '../../../client/agent-names.ts'
import type { AttentionItem } from '../../../protocol/attention.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { Run } from '../../../protocol/run.ts'
import type { TrackerStatus } from '../../../protocol/tracker.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import type { Output } from '../../output/output.ts'
import type { TableColumn } from '../../output/table.ts'
import { columnsOf, padEnd } from '../../output/text-width.ts'
import { formatAge, lastMidnight, type Present } from '../../output/times.ts'
import type { CommandContext } from '../command/run-command.ts'
import type { HostSnapshot } from './host-records.ts'

/** The lines show more than the records do. */
export interface SnapshotDetails {
  readonly config: ServiceConfig
  /** Words about the code host. */
  readonly codeHost: string
  readonly finished: readonly Run[]
  /** Undefined while no price of today is known. */
  readonly spentToday: string | undefined
  /** The word that people use for an item of attention, by the item's id. */
  readonly names: ReadonlyMap<string, string>
  /** How many items of attention the host has left out of its list. */
  readonly more?: number
}

type Fact = readonly [name: string, value: string]

const NAME_COLUMNS = 9
const RIGHT_COLUMN = 50
/** `code host` is the longest name on the right. */
const RIGHT_NAME_COLUMNS = 11
/** A shorter message tells too little, and the command goes to a line of its own. */
const MESSAGE_COLUMNS_MIN = 36

export function printSnapshot(
  { output, present }: Pick<CommandContext, 'output' | 'present'>,
  snapshot: HostSnapshot,
  { config, codeHost, finished, spentToday, names, more }: SnapshotDetails,
): void {
  const { tracker, workers, attention } = snapshot
  const { now } = present()
  const drains = workers.filter(({ state }) => state === 'draining').map(({ name }) => name)
  output.data(headlineOf(output, snapshot, more))
  printFacts(
    output,
    ['tracker', describeTracker(config.tracker.driver, tracker, now)],
    ['code host', codeHost],
  )
  printFacts(
    output,
    ['workers', describeWorkers(workers)],
    ...(drains.length === 0 ? [] : [['draining', drains.join(' ')] as const]),
  )
  const older = olderWorkers(workers, Reflect.get(Object(snapshot.health), 'version'))
  if (older !== '') printFacts(output, ['older', older])
  const isResumeNext = snapshot.paused && snapshot.runs.some(({ status }) => status === 'queued')
  printToday(output, finishedToday(finished, present()), { spent: spentToday, hasNext: !isResumeNext })
  if (tracker.error !== undefined) output.note(`The tracker says: ${output.stderr.clean(tracker.error)}`)
  if (attention.length > 0) printAttention(output, attention, names, now)
  if (more !== undefined && more > 0) output.note(`${more} older ones are not shown.`)
  if (isResumeNext) output.next('switchyard resume')
}

function headlineOf({ stdout }: Output, { runs, paused, attention }: HostSnapshot, more = 0): string {
  const { colors } = stdout
  const queued = runs.filter(({ status }) => status === 'queued').length
  const active = runs.length - queued
  const length = attention.length + more
  const needs =
    length === 0 ? 'nothing needs you' : colors.attention(`${length} ${length === 1 ? 'needs' : 'need'} you`)
  const counts = `${active} ${active === 1 ? 'run' : 'runs'} active, ${queued} queued, ${needs}`
  return paused ? `${colors.attention('paused')}, ${counts}` : counts
}

/** Two facts share a line where both fit; for another program each has its own line. */
function printFacts(output: Output, ...facts: readonly Fact[]): void {
  const { stdout } = output
  const [left, right] = facts.map(([name, value]): Fact => [name, stdout.clean(value)])
  if (!stdout.isTerminal) for (const fact of facts) output.data(fact.join('\t'))
  else if (left !== undefined) {
    const line = padEnd(left[0], NAME_COLUMNS) + left[1]
    const more = right === undefined ? '' : right.join('  ')
    const gap = padEnd(line, Math.max(RIGHT_COLUMN, columnsOf(line) + 2))
    const fits = columnsOf(gap) + columnsOf(more) <= stdout.width
    if (right !== undefined && fits) output.data(gap + more)
    else {
      output.data(stdout.truncate(line))
      if (right !== undefined) output.data(stdout.truncate(padEnd(right[0], RIGHT_NAME_COLUMNS) + right[1]))
    }
  }
}

function describeTracker(driver: string, { state, error, lastPollAt }: TrackerStatus, now: number): string {
  if (state === 'disconnected') return `${driver}, not connected${error === undefined ? '' : `: ${error}`}`
  if (state !== 'connected') return `${driver}, ${state}`
  const polled = lastPollAt === undefined ? '' : `, polled ${formatAge(now - Date.parse(lastPollAt))} ago`
  return `${driver}, connected${polled}`
}

/** `forge 0.1.9`: workers of an earlier version than their host. They work, and should be upgraded. */
function olderWorkers(workers: readonly WorkerView[], hostVersion: unknown): string {
  return workers
    .flatMap(({ name, capabilities }) => {
      const version = capabilities?.version ?? ''
      const isOlder =
        typeof hostVersion === 'string' && version !== '' && isOlderVersion(version, hostVersion)
      return isOlder ? [`${name} ${version}`] : []
    })
    .join(', ')
}

const isOlderVersion = (version: string, hostVersion: string): boolean =>
  version.localeCompare(hostVersion, 'en', { numeric: true }) < 0

export function describeWorkers(workers: readonly WorkerView[]): string {
  if (workers.length === 0) return 'none'
  const online = workers.filter(({ connection }) => connection === 'online')
  const slots = online.reduce((sum, { capabilities }) => sum + (capabilities?.maxConcurrency ?? 0), 0)
  const taken = online.reduce((sum, { activeRuns }) => sum + activeRuns, 0)
  return `${online.length} of ${workers.length} online, ${taken} of ${slots} slots taken`
}

const ENDED = ['completed', 'failed', 'cancelled'] as const
const IDLE = 'nothing ran'
const IDLE_NEXT = ['switchyard tickets', 'switchyard start "WORDS"'] as const

interface TodayDetails {
  readonly spent: string | undefined
  /** Whether an idle day names what to do next. */
  readonly hasNext: boolean
}

function printToday(output: Output, today: readonly Run[], { spent, hasNext }: TodayDetails): void {
  const { stdout, hasNotes } = output
  if (today.length > 0 || spent !== undefined) printFacts(output, ['today', describeToday(today, spent)])
  else if (!stdout.isTerminal || !hasNotes || !hasNext) printFacts(output, ['today', IDLE])
  else {
    const whole = `${IDLE}. Next: ${IDLE_NEXT.map((command) => output.completeCommands(command)).join(', or ')}`
    const fits = NAME_COLUMNS + columnsOf(whole) <= stdout.width
    printFacts(output, ['today', fits ? whole : IDLE])
    // The end of a fact is cut, and a command to copy is not.
    if (!fits) output.next(...IDLE_NEXT)
  }
}

function describeToday(today: readonly Run[], spent: string | undefined): string {
  const counts = ENDED.map((status) => ({
    status,
    count: today.filter((run) => run.status === status).length,
  }))
  const parts = counts.filter(({ count }) => count > 0).map(({ status, count }) => `${count} ${status}`)
  return [...parts, ...(spent === undefined ? [] : [spent])].join(', ')
}

function finishedToday(runs: readonly Run[], present: Present): Run[] {
  const midnight = lastMidnight(present)
  return runs.filter(({ finishedAt }) => finishedAt !== undefined && Date.parse(finishedAt) >= midnight)
}

/** The lines of the status around the items, and the prompt. */
const OTHER_LINES = 11
const ITEMS_MIN = 3
/** In a narrower terminal the command of an item has a line of its own. */
const ONE_LINE_COLUMNS = 100

/** As many items as leave the first line on the screen. */
function itemsThatFit({ height, width }: Output['stdout']): number {
  if (height === undefined) return Number.POSITIVE_INFINITY
  return Math.max(ITEMS_MIN, Math.floor((height - OTHER_LINES) / (width < ONE_LINE_COLUMNS ? 2 : 1)))
}

/** An outage of a minute is another matter than one of a day. */
const wordsOf = ({ kind, message, since }: AttentionItem, now: number): string =>
  kind === 'codehost' ? `for ${formatAge(now - Date.parse(since))}: ${message}` : message

function printAttention(
  output: Output,
  items: readonly AttentionItem[],
  names: ReadonlyMap<string, string>,
  now: number,
): void {
  const { stdout } = output
  const columns: readonly TableColumn<AttentionItem>[] = [
    { heading: '', cell: ({ id, kind }) => names.get(id) ?? kind },
    {
      heading: '',
      cell: (item) => withAgentNames(wordsOf(item, now)),
      shrinksTo: MESSAGE_COLUMNS_MIN,
      shrinks: 'end',
    },
    { heading: '', cell: ({ cure }) => output.completeCommands(cure ?? '') },
  ]
  output.data(stdout.isTerminal ? `\n${stdout.colors.bold('Needs you')}` : 'Needs you')
  const shown = items.slice(0, itemsThatFit(stdout))
  output.table(columns, shown, () => stdout.glyph('attention'))
  if (shown.length < items.length)
    output.note(`and ${items.length - shown.length} more; all of them: switchyard status | cat`)
}
