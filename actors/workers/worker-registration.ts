/**
 * WorkerRegistration handles the first frame of a connection: it enrolls a new worker, accepts a known one, or refuses.
 *
 * A new worker receives its credential only after its enrollment is on disk. A worker deletes its credential when the
 * host refuses it as unknown, so that refusal is sent only after a commit. After the registration the leases that the
 * worker claims are reconciled with those it holds.
 */
import { shortenName } from '../../core/audit-paths.ts'
import {
  admitRegistration,
  type RegistrationAdmission,
  workerNameOrDefault,
} from '../../core/fleet/admission.ts'
import { hashSecret, isSameHash, newCredential, newWorkerId } from '../../core/fleet/token.ts'
import type { Meters } from '../../core/ports/log.ts'
import { isFirstForm } from '../../protocol/first-form.ts'
import { type RunLease, readRegister, type WorkerFrameOf } from '../../protocol/frames.ts'
import { PROTOCOL_VERSION, WORKER_HEARTBEAT_MS, WORKERS_MAX } from '../../protocol/limits.ts'
import type { HostContext } from '../host-context.ts'
import type { LeaseAcknowledgements } from '../leases/lease-acknowledgements.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { ModuleViews } from '../runtime/module.ts'
import type { WorkerEffect } from './connection.machine.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { JoinKeys } from './join-keys.ts'
import type { LeaseReconciliation } from './lease-reconciliation.ts'
import type { WorkersView } from './module.ts'
import { WORKER, type WorkerEvent, type WorkerInput } from './worker.machine.ts'
import type { WorkerConnection } from './worker-connections.ts'
import type { WorkerManager } from './worker-manager.ts'
import type { WorkerRegistry } from './worker-registry.ts'

/** Has the form of a credential hash and matches no credential. */
const UNKNOWN_WORKER_HASH = '0'.repeat(64)

/** Compares also for unknown workers, so that the time taken does not reveal whether a worker exists. */
export function provesCredential(worker: EnrolledWorker | undefined, secret: string): boolean {
  const hash = hashSecret(secret)
  return isSameHash(hash, worker?.context.hash ?? UNKNOWN_WORKER_HASH) && worker !== undefined
}

/** The most refusals that are logged, between two starts of the host. */
const LOGGED_SKEWS_MAX = 64

export class WorkerRegistration {
  readonly #context: HostContext
  readonly #workers: WorkersView
  readonly #acknowledgements: LeaseAcknowledgements
  readonly #reconciliation: LeaseReconciliation
  readonly #manager: WorkerManager
  readonly #loggedSkews = new Set<string>()

  constructor(
    context: HostContext,
    { workers, leases }: Pick<ModuleViews, 'workers' | 'leases'>,
    reconciliation: LeaseReconciliation,
    manager: WorkerManager,
  ) {
    this.#context = context
    this.#workers = workers
    this.#acknowledgements = leases.acknowledgements
    this.#reconciliation = reconciliation
    this.#manager = manager
  }

  /** Handles the first frame of a connection. */
  onFirstFrame(connection: WorkerConnection, text: string): void {
    if (connection.refusalPending) return
    const read = readRegister(text, this.#context.version)
    if (read.is !== 'register') {
      this.#countOutcome(read.is)
      if (read.is === 'protocol') this.#logSkew(connection.link.address, read.reason)
      this.#workers.connections.refuse(connection, read.is, read.reason)
      return
    }
    const { frame } = read
    const { auth } = frame
    connection.isFirstForm = isFirstForm(frame)
    if (auth.kind === 'pairing') this.#redeem(connection, frame, auth.token)
    else if (auth.kind === 'join') this.#join(connection, frame, auth.key)
    else this.#authenticate(connection, frame, auth.workerId, auth.secret)
  }

  /** The enrollment is on disk: send the credential, as soon as the trail is there, too. */
  sendWelcome(connection: WorkerConnection): void {
    const { pendingWelcome, workerId } = connection
    const worker = workerId === undefined ? undefined : this.#workers.registry.get(workerId)
    if (pendingWelcome === undefined || worker === undefined || connection.isClosing) return
    const welcome = (): void =>
      this.#workers.connections.sendFirst(connection, () =>
        this.#sendRegistered(connection, worker, pendingWelcome.credential),
      )
    this.#workers.connections.holdSends(connection)
    const recorded = this.#recordEnrollment(worker)
    this.#synchronize(connection, worker, pendingWelcome.claims)
    if (recorded === undefined) welcome()
    else void recorded.then(welcome)
  }

  /** The host's own worker has no entry: the host itself gave it its token. */
  #recordEnrollment({ context: { id, name, local, joinKey } }: EnrolledWorker): Promise<void> | undefined {
    if (local) return undefined
    return this.#context.store.trail.record({
      ...(joinKey === undefined ? { source: 'worker' } : { source: 'join-key', by: joinKey }),
      action: 'enrollWorker',
      on: { id, name: shortenName(name) },
    })
  }

  #redeem(connection: WorkerConnection, frame: WorkerFrameOf<'register'>, token: string): void {
    const { registry, pairingTokens, connections } = this.#workers
    if (!hasCapacity(registry)) {
      connections.refuse(connection, 'protocol', `this host has ${WORKERS_MAX} workers already; revoke one`)
      return
    }
    const id = this.#enroll(connection, frame, admitRegistration(pairingTokens.redeem(token)))
    if (id !== undefined) pairingTokens.onEnrolled(token, id)
  }

  /** A machine of an autoscaled group comes back until there is room. */
  #join(connection: WorkerConnection, frame: WorkerFrameOf<'register'>, key: string): void {
    const { registry, joinKeys, connections } = this.#workers
    const verdict = joinKeys.admit(key)
    if (verdict.ok && !hasCapacity(registry))
      connections.closeForRetry(connection, `this host has ${WORKERS_MAX} workers already; revoke one`)
    else this.#enroll(connection, frame, verdict)
  }

  /** Returns the worker's id; undefined when it was refused. */
  #enroll(
    connection: WorkerConnection,
    frame: WorkerFrameOf<'register'>,
    verdict: RegistrationAdmission,
  ): string | undefined {
    const { system, random } = this.#context
    const { registry, connections } = this.#workers
    this.#countOutcome(verdict.ok ? 'enrolled' : verdict.code)
    if (!verdict.ok) {
      connections.refuse(connection, verdict.code, verdict.reason)
      return undefined
    }
    evictEnded(registry, system)
    const id = newWorkerId(random.bytes(8))
    const credential = newCredential(random.bytes(32))
    const input: WorkerInput = {
      id,
      name: workerNameOrDefault(frame.name, id),
      hash: hashSecret(credential),
      enrolledAt: this.#context.instant(),
      local: verdict.local,
      capabilities: frame.capabilities,
      ...(verdict.joinKey === undefined ? {} : { joinKey: verdict.joinKey.id }),
      ...(verdict.joinKey?.ephemeral === true ? { ephemeral: true } : {}),
    }
    if (!system.spawn(WORKER, id, input).ok) {
      connections.closeForRetry(connection, 'the enrollment could not be recorded; try again')
      return undefined
    }
    if (input.local) this.#revokeOlderLocal(id)
    connection.pendingWelcome = { credential, claims: frame.activeLeases }
    connections.markRegistered(connection, id)
    const welcome: WorkerEffect = { type: 'worker.send registered', connection: connection.number }
    system.runAfterCommit(welcome)
    return id
  }

  /** The host runs one local worker, which enrolls again only when its old credential is lost: revoke the old one. */
  #revokeOlderLocal(id: string): void {
    const { system } = this.#context
    const revoked: WorkerEvent = { type: 'revoked' }
    for (const { context } of [...this.#workers.registry.all()])
      if (context.local && context.id !== id) system.send(WORKER, context.id, revoked)
  }

  #authenticate(
    connection: WorkerConnection,
    frame: WorkerFrameOf<'register'>,
    workerId: string,
    secret: string,
  ): void {
    const { system } = this.#context
    const { registry, joinKeys, connections } = this.#workers
    // An enrolled worker's record is damaged, perhaps its id too: the host cannot know whether this one is enrolled.
    const isUnsure = system.isDamaged(WORKER, workerId) || system.hasDamaged(WORKER)
    if (registry.get(workerId) === undefined && isUnsure) {
      connections.closeForRetry(connection, 'the record of this worker could not be read')
      return
    }
    const worker = registry.get(workerId)
    const proved = provesCredential(worker, secret)
    if (worker === undefined || !proved) {
      this.#refuseUnknown(connection)
      return
    }
    if (frame.capabilities.ending !== true && !maySitAgain(worker, joinKeys)) {
      connections.closeForRetry(connection, 'this worker had ended, and its join key has no room for it now')
      return
    }
    if (connections.refuseOutdated(connection, workerId)) return
    this.#countOutcome('ok')
    const at = this.#context.instant()
    connections.markRegistered(connection, workerId)
    // Last, because the end of a replaced connection counts an ephemeral worker as gone.
    system.send(WORKER, workerId, { type: 'seen', at, capabilities: frame.capabilities })
    this.#sendRegistered(connection, worker, undefined)
    this.#synchronize(connection, worker, frame.activeLeases)
  }

  #refuseUnknown(connection: WorkerConnection): void {
    this.#countOutcome('unauthorized')
    connection.refusalPending = true
    // The worker deletes its credential on this refusal, so send it only after a commit.
    const refuse: WorkerEffect = {
      type: 'worker.refuse connection',
      connection: connection.number,
      code: 'unauthorized',
      reason: 'this worker is not enrolled at this host, or its credential is wrong',
    }
    this.#context.system.runAfterCommit(refuse)
  }

  #sendRegistered(
    connection: WorkerConnection,
    worker: EnrolledWorker,
    credential: string | undefined,
  ): void {
    this.#workers.connections.send(connection, {
      type: 'registered',
      protocolVersion: PROTOCOL_VERSION,
      heartbeatIntervalMs: WORKER_HEARTBEAT_MS,
      hostVersion: this.#context.version,
      workerId: worker.id,
      name: worker.name,
      state: worker.state,
      installation: this.#context.store.installation,
      ...(credential === undefined ? {} : { credential }),
    })
  }

  /** Reconciles the worker's leases, then acknowledges how far each of them is on disk. */
  #synchronize(connection: WorkerConnection, worker: EnrolledWorker, claims: readonly RunLease[]): void {
    this.#reconciliation.reconcile(connection, worker, claims)
    this.#acknowledgements.acknowledgeAll(connection, worker, undefined)
    this.#manager.onReconnected(worker.id)
    this.#context.requestScheduling()
    this.#manager.schedulePush()
  }

  /** Logs each address and reason once, because strangers may send such frames too. */
  #logSkew(address: string, reason: string): void {
    const key = `${address} ${reason}`
    if (this.#loggedSkews.has(key) || this.#loggedSkews.size >= LOGGED_SKEWS_MAX) return
    this.#loggedSkews.add(key)
    this.#context.log.warn({ address, reason }, 'a worker was refused because of its protocol version')
  }

  #countOutcome(outcome: string): void {
    this.#context.meters.count('worker_registrations_total', { outcome })
  }
}

// ---- seats on a full host, and of join keys ----------------------------------------------------------------------

function hasCapacity(workers: WorkerRegistry): boolean {
  return workers.size < WORKERS_MAX || findEnded(workers) !== undefined
}

/** Removes a worker that has ended before its time, so that many short ones keep no other out. */
function evictEnded(workers: WorkerRegistry, system: ActorSystem): void {
  const ended = workers.size < WORKERS_MAX ? undefined : findEnded(workers)
  if (ended !== undefined) system.send(WORKER, ended.id, { type: 'revoked' })
}

/** Whether a worker may serve again. One that said that it ends may have left its seat, even while it is connected. */
function maySitAgain({ isEnding, used, context }: EnrolledWorker, joinKeys: JoinKeys): boolean {
  return !isEnding || used > 0 || context.joinKey === undefined || joinKeys.hasFreeSeat(context.joinKey)
}

function findEnded(workers: WorkerRegistry): EnrolledWorker | undefined {
  for (const worker of workers.all()) if (worker.hasEnded) return worker
  return undefined
}

// ---- the proof in an upgrade request -----------------------------------------------------------------------------

type EnrollmentSecrets = Pick<WorkersView, 'registry' | 'pairingTokens' | 'joinKeys'>

/**
 * WorkerProofs checks the secret in a worker's upgrade request: its credential, a pairing token, or a join key.
 *
 * A proof only gives the connection a seat that others cannot take; `register` still decides who the worker is. So a
 * wrong proof counts as none, and is never a reason for `unauthorized`. Nothing is redeemed here.
 */
export class WorkerProofs {
  readonly #meters: Meters
  readonly #workers: EnrollmentSecrets

  constructor(meters: Meters, workers: EnrollmentSecrets) {
    this.#meters = meters
    this.#workers = workers
  }

  /**
   * Returns the holder of a valid secret, or undefined. Takes the same time for unknown workers and wrong secrets.
   *
   * @param workerId absent for a pairing token and a join key
   */
  check(workerId: string | undefined, secret: string): string | undefined {
    const { registry, pairingTokens, joinKeys } = this.#workers
    const holder =
      workerId === undefined
        ? (pairingTokens.holderOf(secret) ?? joinKeys.holderOf(secret))
        : provesCredential(registry.get(workerId), secret)
          ? `worker ${workerId}`
          : undefined
    this.#meters.count('worker_proofs_total', { outcome: holder === undefined ? 'wrong' : 'valid' })
    return holder
  }
}
