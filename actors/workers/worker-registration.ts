/**
 * Who somebody on a new line is: a machine that presents a token and is enrolled, a worker that comes back, or nobody.
 *
 * Whoever is enrolled hears of it, and gets its credential, only when that is on disk; whoever is turned away as
 * unknown hears that only of what is on disk, because it then throws its credential away. After the greeting, what the
 * worker claims and what it has are brought together.
 */
import { admitRegister } from '../../core/fleet/admission.ts'
import { workerNameOr } from '../../core/fleet/naming.ts'
import { hashOf, newCredential, newWorkerId, sameHash } from '../../core/fleet/token.ts'
import type { Meters, RandomSource } from '../../core/ports.ts'
import { type RunLease, readRegister, type WorkerFrameOf } from '../../protocol/frames.ts'
import { PROTOCOL_VERSION, WORKER_HEARTBEAT_MS, WORKERS_MAX } from '../../protocol/limits.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { WORKER } from './fleet.names.ts'
import type { Heartbeats } from './heartbeats.ts'
import type { Claims } from './lease-reconciliation.ts'
import type { Enrollment } from './pairing-tokens.ts'
import type { WorkerEvent, WorkerInput } from './worker.machine.ts'
import type { Connection, FleetEffect, Lines } from './worker-connections.ts'
import type { Fleet, Member } from './worker-registry.ts'

export interface IntroductionPorts {
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly random: RandomSource
  readonly meters: Meters
  readonly system: ActorSystem
  readonly fleet: Fleet
  readonly enrollment: Enrollment
  readonly lines: Lines
  readonly claims: Claims
  readonly heartbeats: Heartbeats
  readonly version: string
  /** Something that may let a run be placed. */
  readonly look: () => void
  /** Capabilities, connections: what people see of workers. */
  readonly changed: () => void
  /** It is back: what it was to be told while it was away. */
  readonly returned: (workerId: string) => void
}

/** Of the right form, and nobody's. */
const NOBODYS_HASH = '0'.repeat(64)

/** Somebody unknown takes as long as somebody known. */
export function proves(member: Member | undefined, secret: string): boolean {
  const hash = hashOf(secret)
  return sameHash(hash, member?.context.hash ?? NOBODYS_HASH) && member !== undefined
}

export class Introductions {
  readonly #ports: IntroductionPorts

  constructor(ports: IntroductionPorts) {
    this.#ports = ports
  }

  /** The first frame of a line. */
  introduce(connection: Connection, text: string): void {
    if (connection.stranger) return
    const read = readRegister(text)
    if (read.is !== 'register') {
      this.#count(read.is)
      this.#ports.lines.refuse(connection, read.is, read.reason)
      return
    }
    const { frame } = read
    if (frame.auth.kind === 'pairing') this.#enroll(connection, frame, frame.auth.token)
    else this.#recognise(connection, frame, frame.auth.workerId, frame.auth.secret)
  }

  /** Its enrollment is on disk. */
  welcome(connection: Connection): void {
    const { welcome, workerId } = connection
    const member = workerId === undefined ? undefined : this.#ports.fleet.member(workerId)
    connection.welcome = undefined
    if (welcome === undefined || member === undefined || connection.deaf) return
    this.#greet(connection, member, welcome.credential)
    this.#settle(connection, member, welcome.claims)
  }

  #enroll(connection: Connection, frame: WorkerFrameOf<'register'>, token: string): void {
    const { system, fleet, random, enrollment, lines } = this.#ports
    if (fleet.size >= WORKERS_MAX) {
      lines.refuse(connection, 'protocol', `this host has ${WORKERS_MAX} workers already; revoke one`)
      return
    }
    const redeemed = enrollment.redeem(token)
    const verdict = admitRegister(redeemed)
    this.#count(verdict.ok ? 'enrolled' : verdict.code)
    if (!verdict.ok) {
      lines.refuse(connection, verdict.code, verdict.reason)
      return
    }
    const id = newWorkerId(random.bytes(8))
    const credential = newCredential(random.bytes(32))
    const input: WorkerInput = {
      id,
      name: workerNameOr(frame.name, id),
      hash: hashOf(credential),
      enrolledAt: this.#ports.instant(),
      local: verdict.local,
      capabilities: frame.capabilities,
    }
    if (!system.spawn(WORKER, id, input).ok) {
      lines.hangUp(connection, 'the enrollment could not be recorded')
      return
    }
    if (input.local) this.#replaceLocal(id)
    connection.welcome = { credential, claims: frame.activeLeases }
    lines.registered(connection, id)
    const welcome: FleetEffect = { type: 'fleet.welcome', connection: connection.number }
    system.runAfterCommit(welcome)
  }

  /** This machine has one worker of the host's own: it enrolls anew only when its old credential is gone. */
  #replaceLocal(id: string): void {
    const { fleet, system } = this.#ports
    const revoked: WorkerEvent = { type: 'revoked' }
    for (const { context } of [...fleet.members()])
      if (context.local && context.id !== id) system.send(WORKER, context.id, revoked)
  }

  #recognise(
    connection: Connection,
    frame: WorkerFrameOf<'register'>,
    workerId: string,
    secret: string,
  ): void {
    const { system, fleet, lines } = this.#ports
    // Somebody's record could not be read: nobody can say that it is not enrolled.
    if (system.isDamaged(WORKER, workerId)) {
      lines.hangUp(connection, 'the enrollment could not be read')
      return
    }
    const member = fleet.member(workerId)
    const proved = proves(member, secret)
    if (member === undefined || !proved) {
      this.#turnAway(connection)
      return
    }
    this.#count('ok')
    const seen: WorkerEvent = { type: 'seen', at: this.#ports.instant(), capabilities: frame.capabilities }
    system.send(WORKER, workerId, seen)
    lines.registered(connection, workerId)
    this.#greet(connection, member, undefined)
    this.#settle(connection, member, frame.activeLeases)
  }

  #turnAway(connection: Connection): void {
    this.#count('unauthorized')
    connection.stranger = true
    // The worker deletes its credential on this word, so it is said only of what is on disk.
    const refuse: FleetEffect = {
      type: 'fleet.refuse',
      connection: connection.number,
      code: 'unauthorized',
      reason: 'this worker is not enrolled here, or its credential is another',
    }
    this.#ports.system.runAfterCommit(refuse)
  }

  #greet(connection: Connection, member: Member, credential: string | undefined): void {
    this.#ports.lines.send(connection, {
      type: 'registered',
      protocolVersion: PROTOCOL_VERSION,
      heartbeatIntervalMs: WORKER_HEARTBEAT_MS,
      hostVersion: this.#ports.version,
      workerId: member.id,
      name: member.name,
      state: member.state,
      ...(credential === undefined ? {} : { credential }),
    })
  }

  /** What it claims and what it has, brought together; then how far each of its leases is on disk. */
  #settle(connection: Connection, member: Member, claims: readonly RunLease[]): void {
    this.#ports.claims.compare(connection, member, claims)
    this.#ports.heartbeats.acknowledge(connection, member, undefined)
    this.#ports.returned(member.id)
    this.#ports.look()
    this.#ports.changed()
  }

  #count(outcome: string): void {
    this.#ports.meters.count('worker_registrations_total', { outcome })
  }
}
