/** `switchyard workers list` and `workers show`: the machines in a table, and one in full. */

import { agentName } from '../../../client/agent-names.ts'
import {
  describeVersion,
  foundAgents,
  holderName,
  platformOf,
  slotsOf,
  stateOf,
} from '../../../client/worker-words.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { shortenIds, WORKER_DIGITS } from '../../output/short-names.ts'
import type { TableColumn } from '../../output/table.ts'
import { formatAgeOf, formatClock } from '../../output/times.ts'
import { findWorker } from '../command/names.ts'
import type { CommandContext } from '../command/run-command.ts'

const NAME_COLUMNS = 11

export async function list(context: CommandContext): Promise<void> {
  const { client, output } = context
  const [{ workers }, { version }] = await Promise.all([client.listWorkers(), client.health()])
  output.list({
    records: workers,
    id: ({ id }) => id,
    columns: workerColumns(context, workers, version),
    empty: 'No worker is enrolled. Next: switchyard workers pair',
  })
}

function workerColumns(
  { present }: CommandContext,
  workers: readonly WorkerView[],
  hostVersion: string,
): TableColumn<WorkerView>[] {
  const { now } = present()
  const short = shortenIds(
    workers.map(({ id }) => id),
    WORKER_DIGITS,
  )
  return [
    { heading: 'WORKER', cell: ({ name }) => name },
    { heading: 'STATE', cell: stateOf },
    { heading: 'SLOTS', cell: slotsOf },
    { heading: 'PLATFORM', cell: platformOf, givesWay: 3 },
    {
      heading: 'VERSION',
      cell: (worker) => describeVersion(worker, hostVersion),
      plain: ({ capabilities }) => capabilities?.version ?? '-',
      givesWay: 4,
    },
    { heading: 'AGENTS', cell: agentsOf, givesWay: 2, shrinksTo: 6, shrinks: 'end' },
    {
      heading: 'SEEN',
      cell: (worker) => describeSeen(worker, now),
      plain: ({ lastSeenAt }) => lastSeenAt ?? '-',
    },
    { heading: 'ID', cell: ({ id }) => short.get(id) ?? id, plain: ({ id }) => id, givesWay: 1 },
  ]
}

const agentsOf = (worker: WorkerView): string => foundAgents(worker).map(agentName).join(' ') || '-'

function describeSeen({ connection, lastSeenAt }: WorkerView, now: number): string {
  if (connection === 'online') return 'now'
  return lastSeenAt === undefined ? '-' : `${formatAgeOf(lastSeenAt, now)} ago`
}

// ---- one worker ----------------------------------------------------------------------------------------------------

export async function show(context: CommandContext, name: string): Promise<void> {
  const { client, output } = context
  const worker = await findWorker(client, name)
  if (output.format === 'json') output.json(worker)
  else if (output.format === 'id') output.data(worker.id)
  else {
    const { version } = await client.health()
    for (const line of workerLines(context, worker, version)) output.data(line)
    const next = worker.state === 'draining' ? 'enable' : 'drain'
    output.next(`switchyard workers ${next} ${quoteWord(worker.name)}`)
  }
}

function workerLines({ output, present }: CommandContext, worker: WorkerView, hostVersion: string): string[] {
  const { stdout } = output
  const { capabilities, address, local, enrolledAt, drainedBy } = worker
  const now = present()
  const facts: readonly (readonly [string, string])[] = [
    ['worker', `${worker.id}${local === true ? ', of the host itself' : ''}`],
    ['slots', slotsOf(worker)],
    ['platform', [platformOf(worker), capabilities?.provider].filter(Boolean).join(', ')],
    ['version', describeVersion(worker, hostVersion)],
    ['agents', foundAgents(worker).map(agentName).join(', ') || '-'],
    ['seen', describeSeen(worker, now.now)],
    ['address', address ?? '-'],
    ['enrolled', `${formatClock(Date.parse(enrolledAt), now)}${describeJoinKey(worker)}`],
    ...(drainedBy === undefined ? [] : [['drained by', drainedBy.map(holderName).join(', ')] as const]),
  ]
  const state = worker.state === 'draining' ? `${worker.connection}, draining` : worker.connection
  return [
    stdout.alignEnds(stdout.clean(worker.name), state),
    ...facts.map(([heading, value]) =>
      stdout.truncate(`${heading.padEnd(NAME_COLUMNS)}${stdout.clean(value)}`),
    ),
  ]
}

function describeJoinKey({ joinKey, ephemeral }: WorkerView): string {
  if (joinKey === undefined) return ''
  return `, with the join key ${joinKey}${ephemeral === true ? '; removed by itself after it left' : ''}`
}
