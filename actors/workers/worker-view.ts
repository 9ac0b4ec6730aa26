/** Shows an enrolled worker to people and to programs, without its credential. */
import { drainHolders } from '../../core/fleet/drain-holders.ts'
import type { WorkerState, WorkerView } from '../../protocol/worker.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { WorkerContext } from './worker.machine.ts'

/** The keys of a view that only a draining worker has. */
export const drainOf = (state: WorkerState, { drainedBy }: WorkerContext): Pick<WorkerView, 'drainedBy'> =>
  state === 'draining' ? { drainedBy: [...drainHolders(drainedBy)] } : {}

export interface HostFacts {
  /** The host runs the worker itself. */
  readonly isOwn: boolean
  /** For each terminal that this host has opened on the worker, its run. */
  readonly terminals: readonly string[]
}

export function viewOf(worker: EnrolledWorker, { isOwn, terminals }: HostFacts): WorkerView {
  const { context, state, connection, leases, lastSeenAt } = worker
  const shown = connection === undefined ? [] : terminals
  // A terminal that was opened since the last heartbeat counts too.
  const attachSessions = Math.max(worker.attachSessions, shown.length)
  return {
    id: context.id,
    name: context.name,
    state,
    ...drainOf(state, context),
    connection: connection === undefined ? 'offline' : 'online',
    ...(isOwn ? { local: true } : {}),
    ...(context.joinKey === undefined ? {} : { joinKey: context.joinKey }),
    ...(context.ephemeral === true ? { ephemeral: true } : {}),
    ...(context.capabilities === null ? {} : { capabilities: context.capabilities }),
    activeRuns: leases.size,
    ...(attachSessions === 0 ? {} : { attachSessions }),
    ...(shown.length === 0 ? {} : { attachedRuns: [...new Set(shown)] }),
    enrolledAt: context.enrolledAt,
    ...(connection === undefined ? {} : { connectedAt: connection.since, address: connection.address }),
    ...(lastSeenAt === undefined ? {} : { lastSeenAt: new Date(lastSeenAt).toISOString() }),
  }
}
