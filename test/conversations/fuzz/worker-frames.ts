/**
 * WorkerFrames draws the frames of one worker from their schemas, in an order that a worker might choose, with the ids and
 * numbers of what the host has given to it.
 */
import {
  type HostFrame,
  type HostFrameOf,
  type WorkerFrameType,
  workerFrames,
} from '../../../protocol/frames.ts'
import type { Random } from '../../support/random.ts'
import { type DrawnValue, type Place, SchemaValues } from '../../support/schema-values.ts'
import { capabilities } from '../host-conversation.ts'

const RUNS_AT_ONCE = 3

interface Claim {
  readonly leaseId: string
  readonly runId: string
  readonly expiresAt: string
  isAccepted: boolean
  seq: number
}

export class WorkerFrames {
  /** The runs whose sandboxes are resumed here. */
  readonly resumedRuns = new Set<string>()
  readonly #random: Random
  readonly #values: SchemaValues
  readonly #claims = new Map<string, Claim>()
  readonly #boots: HostFrameOf<'sandbox-boot'>[] = []
  readonly #sessionIds: string[] = []

  constructor(random: Random) {
    this.#random = random
    this.#values = new SchemaValues(random, (key) => this.#knownOf(key))
  }

  get hasBoots(): boolean {
    return this.#boots.length > 0
  }

  /** The connection is lost: what the host still wants it asks for again. */
  onDisconnected(): void {
    this.#boots.length = 0
    this.#sessionIds.length = 0
    this.resumedRuns.clear()
  }

  forget(): void {
    this.#claims.clear()
    this.onDisconnected()
  }

  onFrame(frame: HostFrame): void {
    switch (frame.type) {
      case 'dispatch': {
        const { id, runId, expiresAt } = frame.lease
        this.#claims.set(id, { leaseId: id, runId, expiresAt, isAccepted: false, seq: 0 })
        return
      }
      case 'lease-ack':
        // Lost frames are sent again.
        for (const { leaseId, seq } of frame.leases) {
          const claim = this.#claims.get(leaseId)
          if (claim !== undefined) claim.seq = seq
        }
        return
      case 'run-complete-ack':
      case 'lease-lost':
        this.#claims.delete(frame.leaseId)
        return
      case 'sandbox-boot':
        this.#boots.push(frame)
        return
      case 'sandbox-release':
      case 'discard':
        this.resumedRuns.delete(frame.runId)
        return
      case 'attach-open':
        this.#sessionIds.push(frame.sessionId)
        return
      case 'attach-close':
        this.#sessionIds.splice(this.#sessionIds.indexOf(frame.sessionId) >>> 0, 1)
    }
  }

  drawRegister(auth: Record<string, string>): DrawnValue {
    const drawn = this.#values.draw(workerFrames.register)
    this.#introduce(Object(drawn.root.value), auth, drawn.places)
    return drawn
  }

  #introduce(frame: Record<string, unknown>, auth: Record<string, string>, places: Place[]): void {
    frame.auth = auth
    for (const key of Object.keys(auth)) places.push({ holder: auth, key, shape: {} })
    frame.protocolVersion = 1
    Reflect.deleteProperty(frame, 'oldestProtocolVersion')
    const known = this.#random.chance(0.8) ? capabilities : Object(frame.capabilities)
    frame.capabilities = { ...known, maxConcurrency: RUNS_AT_ONCE }
    if (this.#random.chance(0.85)) frame.activeLeases = this.#held()
  }

  /** Frames that wait for an answer come first, then the reports of the runs, then all others. */
  nextType(): WorkerFrameType {
    const random = this.#random
    if (this.#boots.length > 0 && random.chance(0.6))
      return random.chance(0.9) ? 'sandbox-ready' : 'sandbox-failed'
    if (this.#sessionIds.length > 0 && random.chance(0.3)) return random.pick(TERMINAL_TYPES)
    if (this.#firstClaim(false) !== undefined && random.chance(0.5))
      return random.chance(0.97) ? 'dispatch-accepted' : 'dispatch-rejected'
    if (this.#firstClaim(true) !== undefined && random.chance(0.75)) return random.pick(REPORT_TYPES)
    return random.chance(0.4) ? 'heartbeat' : random.pick(OTHER_TYPES)
  }

  #firstClaim(isAccepted: boolean): Claim | undefined {
    return [...this.#claims.values()].find((claim) => claim.isAccepted === isAccepted)
  }

  draw(type: WorkerFrameType): DrawnValue {
    const random = this.#random
    const drawn = this.#values.draw(workerFrames[type])
    const frame = Object(drawn.root.value)
    if (type === 'run-usage-snapshot') this.#choosePlace(frame)
    if (type === 'lease-gap') frame.to = frame.from + random.below(4)
    if (type === 'dispatch-accepted' || type === 'dispatch-rejected') this.#answer(frame, type)
    if (typeof frame.seq === 'number') this.#number(frame)
    if (type === 'sandbox-ready' || type === 'sandbox-failed') this.#answerBoot(frame)
    if (frame.leases !== undefined && random.chance(0.85)) frame.leases = this.#held()
    return drawn
  }

  #answer(frame: { leaseId: string }, type: WorkerFrameType): void {
    const claim = this.#firstClaim(false)
    if (claim === undefined) return
    frame.leaseId = claim.leaseId
    claim.isAccepted = true
    if (type === 'dispatch-rejected') this.#claims.delete(claim.leaseId)
  }

  #answerBoot(frame: { type: string; requestId: string }): void {
    const boot = this.#boots.shift()
    frame.requestId = boot?.requestId ?? 'rq-0'
    if (boot !== undefined && frame.type === 'sandbox-ready') this.resumedRuns.add(boot.runId)
  }

  /** Usually the next number of an accepted lease; otherwise one that was, a gap, or the last of all. */
  #number(frame: { leaseId: string; seq: number; outcome?: unknown }): void {
    const random = this.#random
    const accepted = [...this.#claims.values()].filter(({ isAccepted }) => isAccepted)
    if (accepted.length === 0) return
    const claim = random.pick(accepted)
    frame.leaseId = claim.leaseId
    const usual = claim.seq + 1
    frame.seq = random.chance(0.9)
      ? usual
      : random.pick([1, claim.seq, usual + 1, usual + 999, Number.MAX_SAFE_INTEGER].filter((seq) => seq > 0))
    if (frame.seq === usual) claim.seq = usual
    if (frame.outcome !== undefined && random.chance(0.5)) Object.assign(Object(frame.outcome), RETAINED)
  }

  /** A snapshot is numbered or is of no lease, and has its entries in one of two forms. */
  #choosePlace(frame: Record<string, unknown>): void {
    const random = this.#random
    if (random.chance(0.7)) Object.assign(frame, { leaseId: 'ls-0', seq: 1 })
    else for (const key of ['leaseId', 'seq']) Reflect.deleteProperty(frame, key)
    const snapshot = Object(frame.snapshot)
    Reflect.deleteProperty(snapshot, 'packed')
    snapshot.entries ??= []
  }

  #held(): readonly object[] {
    const held = [...this.#claims.values()].filter(({ isAccepted }) => isAccepted)
    return held.map(({ leaseId, runId, expiresAt, seq }) => ({ id: leaseId, runId, expiresAt, lastSeq: seq }))
  }

  #knownOf(key: string): readonly unknown[] {
    const claims = [...this.#claims.values()]
    if (key === 'leaseId' || key === 'endedLeaseId') return claims.map(({ leaseId }) => leaseId)
    if (key === 'runId') return claims.map(({ runId }) => runId)
    if (key === 'sessionId') return this.#sessionIds
    return KNOWN_WORDS[key] ?? []
  }
}

const KNOWN_WORDS: Readonly<Record<string, readonly unknown[]>> = {
  protocolVersion: [1],
  oldestProtocolVersion: [1],
  part: [0, 0, 1, 2],
  repo: ['owner/name'],
  prUrl: ['https://codehost.example/owner/name/pull/1', 'https://codehost.example/owner/name/pull/2'],
  agentSessionId: ['session-1'],
}

/** With these a sandbox can be resumed. */
const RETAINED = { agentSessionId: 'session-1', sandbox: { id: 'sb-1' } }

const TERMINAL_TYPES = ['attach-data', 'attach-data', 'attach-exit', 'attach-error', 'attach-taken'] as const
const REPORT_TYPES = [
  ...Array.from({ length: 7 }, () => 'run-event' as const),
  'run-patch',
  'run-patch',
  'run-artifact',
  'run-artifact',
  'run-memories',
  'run-usage-snapshot',
  'run-complete',
  'lease-gap',
] as const
const OTHER_TYPES = [
  'lease-costs',
  'expired-sandboxes',
  'actor-states',
  'run-usage-snapshot',
  'sandbox-ready',
  'sandbox-failed',
  'attach-data',
  'dispatch-accepted',
  'dispatch-rejected',
  'run-complete',
] as const
