/** The fleet, for people and for the supervisors on the workers' machines, in the order of the specification's table. */
import type { FrontDesk } from '../../actors/api/host-api.ts'
import type { FleetDemandResponse } from '../../protocol/worker.ts'
import { answered, json, jsonText, refused } from '../reply.ts'
import type { Ask, Handlers } from './route-table.ts'

type WorkerRoute =
  | 'listWorkers'
  | 'mintPairingToken'
  | 'renameWorker'
  | 'drainWorker'
  | 'enableWorker'
  | 'revokeWorker'
  | 'readDemand'
  | 'changeWorkerState'

export function workerHandlers(desk: FrontDesk): Pick<Handlers, WorkerRoute> {
  return {
    listWorkers: () => json(desk.fleet()),
    mintPairingToken: () => answered(desk.mintPairingToken()),
    renameWorker: async ({ params, body }) => answered(await desk.renameWorker(params.id, body.name)),
    drainWorker: async ({ params }) => answered(await desk.drainWorker(params.id)),
    enableWorker: async ({ params }) => answered(await desk.enableWorker(params.id)),
    revokeWorker: async ({ params }) => answered(await desk.revokeWorker(params.id)),
    readDemand: (ask) => {
      const demand = desk.demand(callerOf(ask))
      return demand.ok ? jsonText(demandText(demand.value)) : refused(demand.refusal)
    },
    changeWorkerState: async (ask) => answered(await desk.changeWorkerState(callerOf(ask), ask.query.state)),
  }
}

/** The worker that proved who it is; nothing that the request says besides counts. */
function callerOf({ workerId }: Ask<'readDemand' | 'changeWorkerState'>): string {
  if (workerId === undefined) throw new Error('a worker route was reached by nobody')
  return workerId
}

/**
 * The same text as `JSON.stringify` makes. Every supervisor asks for it all the time, and making it that way would be
 * a fifth of all that the answer costs.
 */
export function demandText(demand: FleetDemandResponse): string {
  const { queuedRuns, activeRuns, connectedWorkers, spareCapacity, worker } = demand
  const fleet = `"queuedRuns":${queuedRuns},"activeRuns":${activeRuns},"connectedWorkers":${connectedWorkers},"spareCapacity":${spareCapacity}`
  const own = `"connected":${worker.connected},"state":"${worker.state}","activeRuns":${worker.activeRuns},"attachSessions":${worker.attachSessions}`
  return `{${fleet},"worker":{"id":${quoted(worker.id)},${own}}}`
}

/** Ids are made of letters that need no escape; whatever else came here would still be written right. */
const quoted = (id: string): string => (/^[\w-]*$/.test(id) ? `"${id}"` : JSON.stringify(id))
