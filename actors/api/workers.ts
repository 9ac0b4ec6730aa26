/**
 * The front desk's part about workers: who there is, who may come in, what they are to do.
 */
import { timingSafeEqual } from 'node:crypto'
import { normalizeWorkerName } from '../../core/fleet/naming.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { WORKER_NAME_CHARS_MAX } from '../../protocol/limits.ts'
import type { FleetDemandResponse, FleetResponse, WorkerState } from '../../protocol/worker.ts'
import type { HostModules } from '../root/modules.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { WorkerEvent } from '../workers/worker.machine.ts'
import { WORKER } from '../workers/worker.names.ts'
import { provesCredential } from '../workers/worker-registration.ts'
import type { EnrolledWorker } from '../workers/worker-registry.ts'
import type { HostApi } from './host-api.ts'

export interface WorkerApiPorts {
  readonly system: ActorSystem
  readonly modules: HostModules
  readonly mayChange: () => Result<void>
  readonly waitForCommit: () => Promise<Result<void>>
}

type WorkerApi = Pick<
  HostApi,
  | 'fleet'
  | 'renameWorker'
  | 'drainWorker'
  | 'enableWorker'
  | 'revokeWorker'
  | 'mintPairingToken'
  | 'demand'
  | 'changeWorkerState'
  | 'connectWorker'
  | 'admitWorker'
>

const NOT_ADMITTED = no('forbidden', 'unknown worker, or a missing or wrong credential')
/** Credentials that were right a moment ago; more are not remembered. */
const VERIFIED_MAX = 4_096

export function createWorkerApi({ system, modules, mayChange, waitForCommit }: WorkerApiPorts): WorkerApi {
  const { terminals, workers, frameRouter, pairingTokens, dispatchBackoff, scheduler } = modules
  const views = (): FleetResponse => ({ workers: workers.views() })
  const verified = new Map<string, { readonly hash: string; readonly secret: Buffer }>()

  async function changeWorker(
    id: string,
    permitted: (member: EnrolledWorker) => Result<WorkerEvent>,
  ): Promise<Result<FleetResponse>> {
    const open = mayChange()
    if (!open.ok) return open
    const member = workers.get(id)
    if (member === undefined) return no('unknown', `no worker ${id} is enrolled`)
    const event = permitted(member)
    if (!event.ok) return event
    system.send(WORKER, id, event.value)
    const done = await waitForCommit()
    return done.ok ? yes(views()) : done
  }

  function renameEvent(member: EnrolledWorker, asked: string): Result<WorkerEvent> {
    if (member.context.local) return no('invalid', 'the local worker keeps its name')
    const name = normalizeWorkerName(asked)
    if (name === '')
      return no('invalid', `/name: must have a visible character, and at most ${WORKER_NAME_CHARS_MAX}`)
    return yes({ type: 'renamed', name })
  }

  /** Hashing anew at each poll would cost more than all the rest of it. */
  function admitWorker(workerId: string, secret: string): Result<{ readonly workerId: string }> {
    const member = workers.get(workerId)
    const known = verified.get(workerId)
    const presented = Buffer.from(secret)
    if (member !== undefined && known !== undefined && known.hash === member.context.hash) {
      const same = known.secret.length === presented.length && timingSafeEqual(known.secret, presented)
      return same ? yes({ workerId }) : NOT_ADMITTED
    }
    // Somebody unknown takes as long as somebody known with a wrong credential.
    if (!provesCredential(member, secret) || member === undefined) return NOT_ADMITTED
    if (verified.size >= VERIFIED_MAX) verified.clear()
    verified.set(workerId, { hash: member.context.hash, secret: presented })
    return yes({ workerId })
  }

  function demand(workerId: string) {
    const answer = workers.demand(workerId, scheduler.queue.readyCount)
    return answer === undefined ? NOT_ADMITTED : yes(withOpenViews(answer))
  }

  /** A terminal that was opened since the last heartbeat counts, too: a shutdown would end it. */
  function withOpenViews(answer: FleetDemandResponse): FleetDemandResponse {
    const { worker } = answer
    const views = worker.connected ? terminals.viewCountOn(worker.id) : 0
    return views <= worker.attachSessions
      ? answer
      : { ...answer, worker: { ...worker, attachSessions: views } }
  }

  return {
    fleet: views,
    renameWorker: (id, name) => changeWorker(id, (member) => renameEvent(member, name)),
    drainWorker: (id) => changeWorker(id, () => yes({ type: 'drained' })),
    enableWorker: (id) =>
      changeWorker(id, (member) => {
        dispatchBackoff.clear(member)
        return yes({ type: 'enabled' })
      }),
    revokeWorker: (id) =>
      changeWorker(id, (member) =>
        member.context.local
          ? no('invalid', 'the local worker cannot be revoked; drain it instead')
          : yes({ type: 'revoked' }),
      ),
    mintPairingToken() {
      const open = mayChange()
      return open.ok ? yes(pairingTokens.issue()) : open
    },
    demand,
    async changeWorkerState(workerId: string, state: WorkerState) {
      const event: WorkerEvent = { type: state === 'draining' ? 'drained' : 'enabled' }
      const changed = await changeWorker(workerId, () => yes(event))
      if (changed.ok) return demand(workerId)
      return changed.refusal.kind === 'unknown' ? NOT_ADMITTED : changed
    },
    connectWorker: (link) => frameRouter.connect(link),
    admitWorker,
  }
}
