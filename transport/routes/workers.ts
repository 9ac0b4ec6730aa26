/** The fleet, for people and for the supervisors on the workers' machines, in the order of the specification's table. */
import type { HostApi } from '../../actors/api/host-api.ts'
import type { FleetDemandResponse } from '../../protocol/worker.ts'
import { json, jsonText, refusalReply, resultReply } from '../reply.ts'
import type { Handlers, RouteRequest } from './route-table.ts'

type WorkerRoute =
  | 'listWorkers'
  | 'mintPairingToken'
  | 'renameWorker'
  | 'drainWorker'
  | 'enableWorker'
  | 'revokeWorker'
  | 'readDemand'
  | 'changeWorkerState'

export function workerHandlers(hostApi: HostApi): Pick<Handlers, WorkerRoute> {
  return {
    listWorkers: () => json(hostApi.fleet()),
    mintPairingToken: () => resultReply(hostApi.mintPairingToken()),
    renameWorker: async ({ params, body }) => resultReply(await hostApi.renameWorker(params.id, body.name)),
    drainWorker: async ({ params }) => resultReply(await hostApi.drainWorker(params.id)),
    enableWorker: async ({ params }) => resultReply(await hostApi.enableWorker(params.id)),
    revokeWorker: async ({ params }) => resultReply(await hostApi.revokeWorker(params.id)),
    readDemand: (ask) => {
      const demand = hostApi.demand(requireWorkerId(ask))
      return demand.ok ? jsonText(demandText(demand.value)) : refusalReply(demand.refusal)
    },
    changeWorkerState: async (ask) =>
      resultReply(await hostApi.changeWorkerState(requireWorkerId(ask), ask.query.state)),
  }
}

/** The worker that proved who it is; nothing that the request says besides counts. */
function requireWorkerId({ workerId }: RouteRequest<'readDemand' | 'changeWorkerState'>): string {
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
  return `{${fleet},"worker":{"id":${quoteId(worker.id)},${own}}}`
}

/** Ids are made of letters that need no escape; whatever else came here would still be written right. */
const quoteId = (id: string): string => (/^[\w-]*$/.test(id) ? `"${id}"` : JSON.stringify(id))
