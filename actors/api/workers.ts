/**
 * API calls about workers: listing, naming, draining and revoking them, pairing tokens, join keys, demand, and their
 * sockets.
 */
import { timingSafeEqual } from 'node:crypto'
import { normalizeName, normalizeWorkerName } from '../../core/fleet/admission.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { FleetDemandResponse } from '../../protocol/demand.ts'
import type { JoinKeyRequest } from '../../protocol/join-key.ts'
import { JOIN_KEY_NAME_CHARS_MAX, WORKER_NAME_CHARS_MAX } from '../../protocol/limits.ts'
import type { FleetResponse, WorkerState } from '../../protocol/worker.ts'
import type { EnrolledWorker } from '../workers/enrolled-worker.ts'
import type { WorkerContext, WorkerEvent } from '../workers/worker.machine.ts'
import { WORKER } from '../workers/worker.machine.ts'
import { provesCredential } from '../workers/worker-registration.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import type { ApiDependencies } from './create-host-api.ts'
import type { HostApi } from './host-api.ts'

type WorkersApi = Pick<
  HostApi,
  | 'fleet'
  | 'renameWorker'
  | 'drainWorker'
  | 'enableWorker'
  | 'revokeWorker'
  | 'mintPairingToken'
  | 'provisionWorker'
  | 'demand'
  | 'changeWorkerState'
  | 'connectWorker'
  | 'proveWorker'
  | 'hasWorkerSeat'
  | 'admitWorker'
>

const NO_PROVISIONING = no('conflict', 'this host can reach no other machines')
export const NOT_ADMITTED = no('forbidden', 'unknown worker, or a missing or wrong credential')

export function createWorkersApi(api: ApiDependencies): WorkersApi {
  const { mayChange } = api
  const { workers, workerChannel } = api.views
  const admission = new WorkerAdmission(workers.registry)
  const isOwn = (worker: WorkerContext) => workers.registry.isOwn(worker)
  return {
    fleet: () => showWorkers(api),
    renameWorker: (id, name) => changeWorker(api, id, ({ context }) => renameEvent(isOwn(context), name)),
    drainWorker: (id) => changeWorker(api, id, () => yes({ type: 'drained', by: 'operator' })),
    enableWorker: (id) =>
      changeWorker(api, id, (worker) => {
        workers.dispatchBackoff.clear(worker)
        return yes({ type: 'enabled' })
      }),
    revokeWorker: (id) => changeWorker(api, id, ({ context }) => revokeEvent(isOwn(context))),
    mintPairingToken() {
      const may = mayChange()
      return may.ok ? yes(workers.pairingTokens.issue()) : may
    },
    async provisionWorker(request) {
      const may = mayChange()
      if (!may.ok) return may
      return (await api.views.provisioning?.provision(request)) ?? NO_PROVISIONING
    },
    demand: (workerId, joinKeyId) =>
      workerId === undefined ? yes(readFleetDemand(api, joinKeyId)) : readDemand(api, workerId),
    async changeWorkerState(workerId, state, by) {
      const changed = await changeWorker(api, workerId, () => yes(stateEvent(state, by)))
      if (changed.ok) return readDemand(api, workerId)
      return changed.refusal.kind === 'unknown' ? NOT_ADMITTED : changed
    },
    connectWorker: (sender, proof) => workerChannel.connect(sender, proof),
    proveWorker: (workerId, secret) => workers.proofs.check(workerId, secret),
    hasWorkerSeat: (address) => workers.seats.hasSeat(address),
    admitWorker: (workerId, secret) => admission.admit(workerId, secret),
  }
}

// ---- changing workers --------------------------------------------------------------------------------------------

const showWorkers = ({ views }: ApiDependencies): FleetResponse => ({
  workers: views.workers.registry.views(),
})

async function changeWorker(
  api: ApiDependencies,
  id: string,
  eventFor: (worker: EnrolledWorker) => Result<WorkerEvent>,
): Promise<Result<FleetResponse>> {
  const may = api.mayChange()
  if (!may.ok) return may
  const worker = api.views.workers.registry.get(id)
  if (worker === undefined) return no('unknown', `no worker ${id} is enrolled`)
  const event = eventFor(worker)
  if (!event.ok) return event
  api.context.system.send(WORKER, id, event.value)
  const committed = await api.whenCommitted()
  return committed.ok ? yes(showWorkers(api)) : committed
}

function renameEvent(isOwn: boolean, asked: string): Result<WorkerEvent> {
  if (isOwn) return no('invalid', 'the local worker keeps its name')
  const name = normalizeWorkerName(asked)
  if (name === '')
    return no('invalid', `/name: must have a visible character, and at most ${WORKER_NAME_CHARS_MAX}`)
  return yes({ type: 'renamed', name })
}

const revokeEvent = (isOwn: boolean): Result<WorkerEvent> =>
  isOwn ? no('invalid', 'the local worker cannot be revoked; drain it instead') : yes({ type: 'revoked' })

/** Only a supervisor ends its own drain alone; a plain `active` ends every drain. */
function stateEvent(state: WorkerState, by: 'supervisor' | 'worker' | undefined): WorkerEvent {
  if (state === 'draining') return { type: 'drained', by: by ?? 'worker' }
  return by === undefined ? { type: 'enabled' } : { type: 'drain released', by }
}

// ---- demand ------------------------------------------------------------------------------------------------------

/** A machine that finds no room with its key would be started in vain, again and again. */
function readFleetDemand({ views }: ApiDependencies, joinKeyId: string | undefined): FleetDemandResponse {
  const { readyCount, wantedCount } = views.scheduler
  const { registry, joinKeys } = views.workers
  const freeSeats = joinKeyId === undefined ? undefined : joinKeys.freeSeatsOf(joinKeyId)
  return registry.fleetDemand(readyCount, Math.min(wantedCount, freeSeats ?? wantedCount))
}

function readDemand({ views }: ApiDependencies, workerId: string): Result<FleetDemandResponse> {
  const { readyCount, wantedCount, wantedRuns } = views.scheduler
  const { registry, wakeTurns } = views.workers
  const worker = registry.get(workerId)
  if (worker === undefined) return NOT_ADMITTED
  return yes(
    registry.demand(worker, {
      queuedRuns: readyCount,
      wanted: wantedCount,
      // A terminal that was opened since the last heartbeat counts too: a shutdown would end it.
      attachSessions: worker.online
        ? Math.max(worker.attachSessions, views.terminals.sessions.viewCountOn(workerId))
        : worker.attachSessions,
      awaitedRuns: readyCount === 0 ? 0 : wantedRuns.countAwaiting(workerId),
      promisedRuns: wakeTurns.promisedToOthers(worker, wantedCount),
    }),
  )
}

// ---- admission ---------------------------------------------------------------------------------------------------

/** How many credentials are remembered that were right a moment ago. */
const REMEMBERED_MAX = 4_096

interface RememberedCredential {
  readonly hash: string
  readonly secret: Buffer
  /** As long, for the secret of the next request. */
  readonly presented: Buffer
  readonly admitted: Result<{ readonly workerId: string }>
}

/** Hashing the credential again at each poll would cost more than everything else a poll does. */
class WorkerAdmission {
  readonly #registry: WorkerRegistry
  readonly #remembered = new Map<string, RememberedCredential>()

  constructor(registry: WorkerRegistry) {
    this.#registry = registry
  }

  admit(workerId: string, secret: string): Result<{ readonly workerId: string }> {
    const worker = this.#registry.get(workerId)
    const known = this.#remembered.get(workerId)
    if (worker !== undefined && known !== undefined && known.hash === worker.context.hash)
      return isSame(known, secret) ? known.admitted : NOT_ADMITTED
    // An unknown worker takes as long as a known one with a wrong credential.
    if (!provesCredential(worker, secret) || worker === undefined) return NOT_ADMITTED
    if (this.#remembered.size >= REMEMBERED_MAX) this.#remembered.clear()
    // The id of the registry: looking up the same text again costs more.
    const { id, hash } = worker.context
    const admitted = yes({ workerId: id })
    const right = Buffer.from(secret)
    this.#remembered.set(id, { hash, secret: right, presented: Buffer.alloc(right.length), admitted })
    return admitted
  }
}

/** A remembered secret is ASCII, so the same text has as many characters as bytes. */
function isSame({ secret, presented }: RememberedCredential, text: string): boolean {
  if (text.length !== secret.length || presented.write(text) !== secret.length) return false
  return timingSafeEqual(secret, presented)
}

// ---- join keys ---------------------------------------------------------------------------------------------------

type JoinKeysApi = Pick<HostApi, 'joinKeys' | 'createJoinKey' | 'deleteJoinKey' | 'admitJoinKey'>

export function createJoinKeysApi(api: ApiDependencies): JoinKeysApi {
  const { joinKeys } = api.views.workers
  return {
    joinKeys: () => ({ joinKeys: joinKeys.list() }),
    createJoinKey: (request) => createJoinKey(api, request),
    deleteJoinKey: (id, withWorkers) => deleteJoinKey(api, id, withWorkers),
    admitJoinKey: (key) => {
      const id = joinKeys.idOf(key)
      return id === undefined ? NOT_ADMITTED : yes({ id })
    },
  }
}

async function createJoinKey(
  api: ApiDependencies,
  { name: asked, expiresAt, maxWorkers, ephemeral = false }: JoinKeyRequest,
): ReturnType<HostApi['createJoinKey']> {
  const may = api.mayChange()
  if (!may.ok) return may
  const name = normalizeName(asked, JOIN_KEY_NAME_CHARS_MAX)
  if (name === '') return no('invalid', '/name: must have a visible character')
  if (expiresAt !== undefined && !(Date.parse(expiresAt) > api.context.clock.now()))
    return no('invalid', `/expiresAt: must be in the future, not ${expiresAt}`)
  const terms = {
    name,
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(maxWorkers === undefined ? {} : { maxWorkers }),
    ephemeral,
  }
  const created = api.views.workers.joinKeys.create(terms)
  if (!created.ok) return created
  const { id, key } = created.value
  const committed = await api.whenCommitted()
  return committed.ok ? yes({ id, ...terms, key }) : committed
}

/** The workers of a key that was deleted before can still be revoked together. */
async function deleteJoinKey(
  api: ApiDependencies,
  id: string,
  withWorkers: boolean,
): ReturnType<HostApi['deleteJoinKey']> {
  const may = api.mayChange()
  if (!may.ok) return may
  const { joinKeys, registry } = api.views.workers
  const joined = withWorkers ? [...registry.all()].filter(({ context }) => context.joinKey === id) : []
  if (!joinKeys.delete(id) && joined.length === 0) return no('unknown', `there is no join key ${id}`)
  for (const worker of joined) api.context.system.send(WORKER, worker.id, { type: 'revoked' })
  const committed = await api.whenCommitted()
  return committed.ok ? yes({ ok: true }) : committed
}
