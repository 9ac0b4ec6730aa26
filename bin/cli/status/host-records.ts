/** The records of a host that `status` shows. */
import type { AnswerOf, Client } from '../../../client/client.ts'
import type { AttentionItem } from '../../../protocol/attention.ts'
import type { Run, RunStatus } from '../../../protocol/run.ts'
import type { TrackerStatus } from '../../../protocol/tracker.ts'
import type { WorkerView } from '../../../protocol/worker.ts'

/** The statuses of runs that have not ended. */
export const ACTIVE: readonly RunStatus[] = ['queued', 'preparing', 'running', 'finalizing']

/** The records of `status --json`. */
export interface HostSnapshot {
  readonly health: unknown
  readonly tracker: TrackerStatus
  readonly paused: boolean
  readonly workers: readonly WorkerView[]
  readonly runs: readonly Run[]
  readonly attention: readonly AttentionItem[]
}

export interface HostRecords extends Pick<HostSnapshot, 'health' | 'tracker' | 'workers' | 'runs'> {
  readonly config: AnswerOf<'readConfig'>
  readonly attention: AnswerOf<'readAttention'>
}

const RUNS_MAX = 1000

/** Reads one after the other over one connection: opening another takes longer than an answer. */
export async function readHostRecords(client: Client): Promise<HostRecords> {
  const health = await client.health()
  const tracker = await client.readTrackerStatus()
  const config = await client.readConfig()
  const { workers } = await client.listWorkers()
  const runs = await client.listRuns({ status: [...ACTIVE], limit: RUNS_MAX })
  return { health, tracker, config, workers, runs, attention: await client.readAttention() }
}

export const snapshotOf = ({
  health,
  tracker,
  config,
  workers,
  runs,
  attention,
}: HostRecords): HostSnapshot => ({
  health,
  tracker,
  paused: config.policy.paused === true,
  workers,
  runs,
  attention: attention.items,
})
