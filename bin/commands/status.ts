/** `switchyard status`: what runs, what waits and what needs a person, on one screen. */
import type { Run } from '../../protocol/run.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type { WorkerView } from '../../protocol/worker.ts'
import type { CommandContext } from '../client/run-command.ts'
import { formatCost } from '../output/amounts.ts'
import { columnsOf, padEnd } from '../output/text-width.ts'
import { formatAge } from '../output/times.ts'
import { ACTIVE } from './runs.ts'

interface Snapshot {
  readonly health: unknown
  readonly tracker: TrackerStatus
  readonly paused: boolean
  readonly workers: readonly WorkerView[]
  readonly runs: readonly Run[]
}

const RUNS_MAX = 1000
/** Finished runs that are looked through for those of today. */
const TODAY_MAX = 200
const NAME_COLUMNS = 9
const RIGHT_COLUMN = 50

export async function status(context: CommandContext): Promise<void> {
  const { client, output } = context
  const [health, tracker, config, { workers }, runs, finished] = await Promise.all([
    client.health(),
    client.readTrackerStatus(),
    client.readConfig(),
    client.listWorkers(),
    client.listRuns({ status: [...ACTIVE], limit: RUNS_MAX }),
    output.format === 'table'
      ? client.listRuns({ status: ['completed', 'failed', 'cancelled'], limit: TODAY_MAX })
      : [],
  ])
  const paused = config.policy.paused === true
  const snapshot: Snapshot = { health, tracker, paused, workers, runs }
  if (output.format === 'json') output.json(snapshot)
  else if (output.format === 'id') for (const { id } of runs) output.data(id)
  else printSnapshot(context, snapshot, finished, config.codehost.driver)
}

function printSnapshot(
  context: CommandContext,
  { runs, tracker, workers, paused }: Snapshot,
  finished: readonly Run[],
  codeHost: string,
): void {
  const { output, present } = context
  const { now } = present()
  const { colors } = output.stdout
  const queued = runs.filter((run) => run.status === 'queued').length
  const counts = `${runs.length - queued} runs active, ${queued} queued`
  output.data(paused ? `${colors.attention('paused')}, ${counts}` : counts)
  output.data(twoFacts('tracker', describeTracker(tracker, now), 'code host', codeHost))
  const draining = workers.filter(({ state }) => state === 'draining').map(({ name }) => name)
  const drains = draining.length === 0 ? [] : (['draining', draining.join(' ')] as const)
  output.data(twoFacts('workers', describeWorkers(workers), ...drains))
  output.data(padEnd('today', NAME_COLUMNS) + describeToday(finished, now))
  if (tracker.error !== undefined) output.note(`The tracker says: ${output.stderr.clean(tracker.error)}`)
  const [stuck] = runs.filter((run) => run.status === 'queued' && run.queueReason !== undefined)
  if (runs.length === 0) output.next('switchyard tickets', 'switchyard start "WORDS"')
  else if (stuck !== undefined) output.next(`switchyard explain ${stuck.ticket.identifier}`)
}

function twoFacts(name: string, fact: string, secondName?: string, second?: string): string {
  const left = padEnd(name, NAME_COLUMNS) + fact
  if (secondName === undefined) return left
  const gap = columnsOf(left) < RIGHT_COLUMN ? padEnd(left, RIGHT_COLUMN) : `${left}  `
  return `${gap}${secondName}  ${second}`
}

function describeTracker({ state, lastPollAt }: TrackerStatus, now: number): string {
  if (state !== 'connected') return state === 'disconnected' ? 'not connected' : state
  return lastPollAt === undefined
    ? 'connected'
    : `connected, polled ${formatAge(now - Date.parse(lastPollAt))} ago`
}

function describeWorkers(workers: readonly WorkerView[]): string {
  if (workers.length === 0) return 'none'
  const online = workers.filter(({ connection }) => connection === 'online')
  const slots = online.reduce((sum, { capabilities }) => sum + (capabilities?.maxConcurrency ?? 0), 0)
  const taken = online.reduce((sum, { activeRuns }) => sum + activeRuns, 0)
  return `${online.length} of ${workers.length} online, ${taken} of ${slots} slots taken`
}

function describeToday(finished: readonly Run[], now: number): string {
  const midnight = new Date(now).setHours(0, 0, 0, 0)
  const today = finished.filter(
    ({ finishedAt }) => finishedAt !== undefined && Date.parse(finishedAt) >= midnight,
  )
  if (today.length === 0) return 'nothing ended'
  const count = (status: Run['status']) => today.filter((run) => run.status === status).length
  const parts = (['completed', 'failed', 'cancelled'] as const)
    .filter((state) => count(state) > 0)
    .map((state) => `${count(state)} ${state}`)
  const totals = today.flatMap(({ costTotals }) => (costTotals === undefined ? [] : [costTotals]))
  const known = totals.filter(({ costUsd }) => costUsd !== undefined)
  if (known.length === 0) return parts.join(', ')
  const costUsd = known.reduce((sum, total) => sum + (total.costUsd ?? 0), 0)
  const estimated = known.some((total) => total.estimated)
  const sum = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, costUsd, estimated }
  return [...parts, formatCost(sum)].join(', ')
}
