/**
 * FuzzedWorker registers validly and then sends frames that are drawn from their schemas, in an order that a worker might
 * choose, some with one part spoiled. It connects again whenever the host has closed its socket.
 */
import { type HostFrame, type WorkerFrameType, workerFrames } from '../../../protocol/frames.ts'
import { damaged, type Harm } from '../../support/damage.ts'
import { type DrawnValue, type Place, SchemaValues } from '../../support/schema-values.ts'
import { capabilities, pairingToken } from '../host-conversation.ts'
import type { FuzzedHost } from './fuzzed-host.ts'
import { FuzzedSocket } from './fuzzed-socket.ts'

/** A frame that the host refuses ends the connection, so few are broken. */
const BROKEN_SHARE = 0.15
const BROKEN_REGISTER_SHARE = 0.3
const RUNS_AT_ONCE = 3
/** The host is asked so rarely whether it has read the frames, because asking takes longer than a frame. */
const CATCH_UP_EVERY = 8

interface Claim {
  readonly leaseId: string
  readonly runId: string
  readonly expiresAt: string
  isAccepted: boolean
  seq: number
}

export class FuzzedWorker {
  /** Present from its first registration until the host no longer knows it. */
  identity: { readonly workerId: string; readonly credential: string } | undefined
  /** The runs whose sandboxes are resumed here. */
  readonly resumedRuns = new Set<string>()
  readonly #host: FuzzedHost
  readonly #values: SchemaValues
  readonly #claims = new Map<string, Claim>()
  readonly #requestIds: string[] = []
  readonly #sessionIds: string[] = []
  #socket: FuzzedSocket | undefined
  #isRegistered = false
  /** What was sent since the host was asked. */
  readonly #unread: Harm[] = []

  constructor(host: FuzzedHost) {
    this.#host = host
    this.#values = new SchemaValues(host.random, (key) => this.#knownOf(key))
  }

  /** Sends one frame: the registration of a new connection, or one that may follow. */
  async send(): Promise<void> {
    if (this.#socket === undefined || this.#socket.isClosed || !this.#isRegistered) return this.#register()
    const harm = this.#host.drawHarm(BROKEN_SHARE)
    const drawn = this.#drawFrame(this.#nextType())
    this.#socket.send(damaged(this.#host.random, drawn, harm))
    this.#unread.push(harm)
    if (harm === 'broken' || this.#unread.length >= CATCH_UP_EVERY) await this.catchUp()
  }

  async catchUp(): Promise<void> {
    const received = this.#host.receivedFrames()
    await this.#socket?.catchUp()
    // The first frame that is refused is the last one that is read.
    const reached = this.#host.receivedFrames() - received
    for (const [index, harm] of this.#unread.splice(0).entries())
      this.#host.shares.add('frame', harm, index < reached)
    const frames = this.#socket?.newFrames() ?? []
    // The host sends only frames of its schemas; HostConversation checks them.
    for (const frame of frames) this.#onFrame(frame as unknown as HostFrame)
  }

  async leave(): Promise<void> {
    await this.#socket?.leave()
    this.#socket = undefined
    this.#isRegistered = false
  }

  // ---- registering -------------------------------------------------------------------------------------------------

  async #register(): Promise<void> {
    await this.#socket?.leave()
    this.#isRegistered = false
    const socket = new FuzzedSocket(this.#host, '/ws/worker')
    this.#socket = socket
    await socket.open()
    const harm = this.#host.drawHarm(BROKEN_REGISTER_SHARE)
    const drawn = this.#drawFrame('register')
    socket.send(damaged(this.#host.random, drawn, harm))
    await this.catchUp()
    this.#host.shares.add('register', harm, this.#isRegistered)
  }

  #auth() {
    return this.identity === undefined
      ? { kind: 'pairing', token: pairingToken(this.#host.conversation) }
      : { kind: 'credential', workerId: this.identity.workerId, secret: this.identity.credential }
  }

  #introduce(frame: Record<string, unknown>, places: Place[]): void {
    const auth = this.#auth()
    frame.auth = auth
    for (const key of Object.keys(auth)) places.push({ holder: auth, key, shape: {} })
    frame.protocolVersion = 1
    Reflect.deleteProperty(frame, 'oldestProtocolVersion')
    const known = this.#host.random.chance(0.8) ? capabilities : Object(frame.capabilities)
    frame.capabilities = { ...known, maxConcurrency: RUNS_AT_ONCE }
  }

  // ---- frames of the host ------------------------------------------------------------------------------------------

  #onFrame(frame: HostFrame): void {
    if (frame.type === 'registered') this.#onRegistered(frame.workerId, frame.credential)
    else if (frame.type === 'dispatch') {
      const { id, runId, expiresAt } = frame.lease
      this.#claims.set(id, { leaseId: id, runId, expiresAt, isAccepted: false, seq: 0 })
    } else if (frame.type === 'run-complete-ack' || frame.type === 'lease-lost')
      this.#claims.delete(frame.leaseId)
    else if (frame.type === 'sandbox-boot') {
      this.#requestIds.push(frame.requestId)
      this.resumedRuns.add(frame.runId)
    } else if (frame.type === 'sandbox-release' || frame.type === 'discard')
      this.resumedRuns.delete(frame.runId)
    else if (frame.type === 'attach-open') this.#sessionIds.push(frame.sessionId)
    else if (frame.type === 'attach-close')
      this.#sessionIds.splice(this.#sessionIds.indexOf(frame.sessionId) >>> 0, 1)
    else if (frame.type === 'revoked') this.#forget()
    else if (frame.type === 'rejected' && frame.code === 'unauthorized') this.#forget()
  }

  #onRegistered(workerId: string, credential: string | undefined): void {
    this.#isRegistered = true
    if (credential !== undefined) this.identity = { workerId, credential }
  }

  #forget(): void {
    this.identity = undefined
    this.#claims.clear()
    this.resumedRuns.clear()
  }

  // ---- frames of the worker ----------------------------------------------------------------------------------------

  /** What waits for an answer comes first, then the reports of the runs, then everything else. */
  #nextType(): WorkerFrameType {
    const { random } = this.#host
    if (this.#requestIds.length > 0 && random.chance(0.6))
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

  #drawFrame(type: WorkerFrameType): DrawnValue {
    const { random } = this.#host
    const drawn = this.#values.draw(workerFrames[type])
    const frame = Object(drawn.root.value)
    if (type === 'register') this.#introduce(frame, drawn.places)
    if (type === 'run-usage-snapshot') this.#choosePlace(frame)
    if (type === 'lease-gap') frame.to = frame.from + random.below(4)
    if (type === 'dispatch-accepted' || type === 'dispatch-rejected') this.#answer(frame, type)
    if (typeof frame.seq === 'number') this.#number(frame)
    if (type === 'sandbox-ready' || type === 'sandbox-failed')
      frame.requestId = this.#requestIds.shift() ?? 'rq-0'
    if (frame.leases !== undefined || frame.activeLeases !== undefined) this.#claim(frame)
    return drawn
  }

  #answer(frame: { leaseId: string }, type: WorkerFrameType): void {
    const claim = this.#firstClaim(false)
    if (claim === undefined) return
    frame.leaseId = claim.leaseId
    claim.isAccepted = true
    if (type === 'dispatch-rejected') this.#claims.delete(claim.leaseId)
  }

  /** Usually the next number of an accepted lease; otherwise one that was, a gap, or the last of all. */
  #number(frame: { leaseId: string; seq: number; outcome?: unknown }): void {
    const { random } = this.#host
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
    const { random } = this.#host
    if (random.chance(0.7)) Object.assign(frame, { leaseId: 'ls-0', seq: 1 })
    else for (const key of ['leaseId', 'seq']) Reflect.deleteProperty(frame, key)
    const snapshot = Object(frame.snapshot)
    Reflect.deleteProperty(snapshot, 'packed')
    snapshot.entries ??= []
  }

  #claim(frame: { leases?: unknown; activeLeases?: unknown }): void {
    if (this.#host.random.chance(0.15)) return
    const held = [...this.#claims.values()].filter(({ isAccepted }) => isAccepted)
    const claims = held.map(({ leaseId, runId, expiresAt, seq }) => ({
      id: leaseId,
      runId,
      expiresAt,
      lastSeq: seq,
    }))
    if (frame.leases === undefined) frame.activeLeases = claims
    else frame.leases = claims
  }

  #knownOf(key: string): readonly unknown[] {
    const claims = [...this.#claims.values()]
    if (key === 'leaseId' || key === 'endedLeaseId') return claims.map(({ leaseId }) => leaseId)
    if (key === 'runId') return claims.map(({ runId }) => runId)
    if (key === 'sessionId') return this.#sessionIds
    if (key === 'workerId') return this.identity === undefined ? [] : [this.identity.workerId]
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
  'run-event',
  'run-event',
  'run-event',
  'run-event',
  'run-patch',
  'run-event',
  'run-event',
  'run-event',
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
