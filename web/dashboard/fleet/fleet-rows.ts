/** The rows of the fleet: each worker with its situation, its leases and the sandboxes that it keeps, and the filters. */
import { productName } from '../../../client/agent-names.ts'
import { hasEnded } from '../../../client/run-events.ts'
import { foundAgents } from '../../../client/worker-words.ts'
import type { Run } from '../../../protocol/run.ts'
import type { WorkerView } from '../../../protocol/worker.ts'

/** `drained`: it drains and has nothing left. `new`: it has never connected. */
export type WorkerSituation = 'online' | 'draining' | 'drained' | 'offline' | 'new'

export interface FleetRow {
  readonly worker: WorkerView
  readonly situation: WorkerSituation
  /** The runs that it executes, oldest first. */
  readonly leases: readonly Run[]
  /** Ended runs whose sandboxes it keeps. */
  readonly retained: readonly Run[]
}

export function fleetRowsOf(workers: readonly WorkerView[], runs: Iterable<Run>, now: number): FleetRow[] {
  const leases = new Map<string, Run[]>()
  const retained = new Map<string, Run[]>()
  for (const run of runs) {
    const { workerId, retainedUntil } = run.sandbox
    if (workerId === undefined || run.status === 'queued') continue
    if (!hasEnded(run)) add(leases, workerId, run)
    else if (retainedUntil !== undefined && Date.parse(retainedUntil) > now) add(retained, workerId, run)
  }
  return workers.map((worker) => ({
    worker,
    situation: situationOf(worker),
    leases: (leases.get(worker.id) ?? []).sort((a, b) => (beginOf(a) < beginOf(b) ? -1 : 1)),
    retained: retained.get(worker.id) ?? [],
  }))
}

const beginOf = (run: Run): string => run.startedAt ?? run.createdAt

function add(groups: Map<string, Run[]>, key: string, run: Run): void {
  const members = groups.get(key)
  if (members === undefined) groups.set(key, [run])
  else members.push(run)
}

export function situationOf(worker: WorkerView): WorkerSituation {
  const { connection, state, capabilities, activeRuns, attachSessions = 0 } = worker
  if (connection === 'offline') return capabilities === undefined ? 'new' : 'offline'
  if (state !== 'draining') return 'online'
  return activeRuns === 0 && attachSessions === 0 ? 'drained' : 'draining'
}

// ---- filters -------------------------------------------------------------------------------------------------------

export const FLEET_FILTERS = ['state', 'agent', 'version', 'q'] as const
export type FleetFilter = Readonly<Partial<Record<(typeof FLEET_FILTERS)[number], string>>>

/** `draining` contains drained workers, and `offline` those that have never connected. */
const STATES: Readonly<Record<string, readonly WorkerSituation[]>> = {
  online: ['online'],
  draining: ['draining', 'drained'],
  offline: ['offline', 'new'],
}

export function filterFleet(rows: readonly FleetRow[], filter: FleetFilter): FleetRow[] {
  const { state = '', agent = '', version = '', q = '' } = filter
  const wanted = q.trim().toLowerCase()
  return rows.filter(
    (row) =>
      (state === '' || (STATES[state] ?? []).includes(row.situation)) &&
      (agent === '' || foundAgents(row.worker).includes(agent)) &&
      (version === '' || row.worker.capabilities?.version === version) &&
      (wanted === '' || textOf(row).includes(wanted)),
  )
}

function textOf({ worker, leases }: FleetRow): string {
  const { name, id, address = '', capabilities, joinKey = '' } = worker
  const platform = capabilities === undefined ? '' : `${capabilities.os} ${capabilities.arch}`
  const tickets = leases.map(({ ticket }) => `${ticket.identifier} ${ticket.title}`).join(' ')
  return `${name} ${id} ${address} ${platform} ${joinKey} ${tickets}`.toLowerCase()
}

export interface SituationCounts {
  readonly online: number
  readonly draining: number
  readonly offline: number
}

export function countWorkers(rows: readonly FleetRow[]): SituationCounts {
  const count = (state: string) =>
    rows.filter(({ situation }) => STATES[state]?.includes(situation) === true).length
  return { online: count('online'), draining: count('draining'), offline: count('offline') }
}

/** The choices of a filter: versions newest first, agents by their names. */
export function fleetVersions(rows: readonly FleetRow[]): string[] {
  const versions = new Set(
    rows.flatMap(({ worker }) => (worker.capabilities === undefined ? [] : [worker.capabilities.version])),
  )
  return [...versions].sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))
}

export function fleetAgents(rows: readonly FleetRow[]): string[] {
  const agents = new Set(rows.flatMap(({ worker }) => foundAgents(worker)))
  return [...agents].sort((a, b) => (productName(a) < productName(b) ? -1 : 1))
}
