/** Routes of workers, for people and for supervisors on worker machines, in the order of the specification's table. */
import type { HostApi } from '../../actors/api/host-api.ts'
import type { FleetDemandResponse } from '../../protocol/demand.ts'
import { isPlain } from '../../protocol/query.ts'
import type { PairingTokenResponse } from '../../protocol/worker.ts'
import type { AsciiText } from '../listener-port.ts'
import { asciiJson, json, refusalReply, resultReply } from '../reply.ts'
import type { Handlers, RouteRequest } from './route-table.ts'

type WorkerRoute =
  | 'listWorkers'
  | 'mintPairingToken'
  | 'provisionWorker'
  | 'listJoinKeys'
  | 'createJoinKey'
  | 'deleteJoinKey'
  | 'renameWorker'
  | 'drainWorker'
  | 'enableWorker'
  | 'revokeWorker'
  | 'readDemand'
  | 'changeWorkerState'

/** @param named the marks by which a worker's machine recognises the host */
export function workerHandlers(
  hostApi: HostApi,
  named: Pick<PairingTokenResponse, 'fingerprint' | 'hostUser' | 'fleetPort'>,
): Pick<Handlers, WorkerRoute> {
  return {
    listWorkers: () => json(hostApi.fleet()),
    mintPairingToken: () => {
      const minted = hostApi.mintPairingToken()
      return minted.ok ? json({ ...minted.value, ...named }) : refusalReply(minted.refusal)
    },
    listJoinKeys: () => json(hostApi.joinKeys()),
    createJoinKey: async ({ body }) => {
      const created = await hostApi.createJoinKey(body)
      return created.ok ? json({ ...created.value, ...named }) : refusalReply(created.refusal)
    },
    deleteJoinKey: async ({ params, query }) =>
      resultReply(await hostApi.deleteJoinKey(params.id, query.workers !== undefined)),
    provisionWorker: async ({ body }) => resultReply(await hostApi.provisionWorker(body)),
    renameWorker: async ({ params, body }) => resultReply(await hostApi.renameWorker(params.id, body.name)),
    drainWorker: async ({ params }) => resultReply(await hostApi.drainWorker(params.id)),
    enableWorker: async ({ params }) => resultReply(await hostApi.enableWorker(params.id)),
    revokeWorker: async ({ params }) => resultReply(await hostApi.revokeWorker(params.id)),
    readDemand: (ask) => {
      const demand = hostApi.demand(ask.asker?.workerId, ask.asker?.joinKeyId)
      return demand.ok ? asciiJson(demandText(demand.value)) : refusalReply(demand.refusal)
    },
    changeWorkerState: async (ask) =>
      resultReply(await hostApi.changeWorkerState(requireWorkerId(ask), ask.query.state, ask.query.by)),
  }
}

/** The authenticated worker; other claims in the request are ignored. */
function requireWorkerId({ asker }: RouteRequest<'changeWorkerState'>): string {
  const workerId = asker?.workerId
  if (workerId === undefined) throw new Error('a worker route was called without an authenticated worker')
  return workerId
}

/**
 * Builds the text of `JSON.stringify`, which would take a fifth of the time of this frequently polled route. Characters
 * beyond ASCII are escaped.
 */
export function demandText(demand: FleetDemandResponse): AsciiText {
  const { queuedRuns, wanted, activeRuns, connectedWorkers, spareCapacity, worker } = demand
  const fleet = `"queuedRuns":${queuedRuns},"wanted":${wanted},"activeRuns":${activeRuns},"connectedWorkers":${connectedWorkers},"spareCapacity":${spareCapacity}`
  if (worker === undefined) return `{${fleet}}` as AsciiText
  const drainedBy = worker.drainedBy === undefined ? '' : `,"drainedBy":${quoteAscii(worker.drainedBy)}`
  const awaited = worker.awaitedRuns === undefined ? '' : `,"awaitedRuns":${worker.awaitedRuns}`
  const promised = worker.promisedRuns === undefined ? '' : `,"promisedRuns":${worker.promisedRuns}`
  const own = `"connected":${worker.connected},"state":"${worker.state}"${drainedBy},"activeRuns":${worker.activeRuns},"attachSessions":${worker.attachSessions}${awaited}${promised}`
  return `{${fleet},"worker":{"id":${quoteId(worker.id)},${own}}}` as AsciiText
}

/** Ids normally need no escape; any other text is still quoted correctly. */
const quoteId = (id: string): string => (isPlain(id) ? `"${id}"` : quoteAscii(id))

const quoteAscii = (value: unknown): string =>
  JSON.stringify(value).replace(
    /[^\0-\x7f]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
