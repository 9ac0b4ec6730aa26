/**
 * A worker on a real socket without agents and sandboxes: an execution is a script of reports.
 *
 * The worker follows the specification: it numbers frames per lease, resends unacknowledged frames at most once per ack or
 * connection, claims a lease until its completion is acknowledged, and abandons expired leases. A test compares
 * `executions` with the host's state. The file uses no test framework, so it also runs in a separate process.
 */
import { createHash } from 'node:crypto'
import { WebSocket } from 'undici'
import type {
  HostFrame,
  HostFrameOf,
  Job,
  RejectionCode,
  RunOutcome,
  RunPatch,
  WorkerFrame,
} from '../../protocol/frames.ts'
import { PROTOCOL_VERSION, WORKER_BUFFER_FRAMES_MAX } from '../../protocol/limits.ts'
import { type UsageEntry, usageText } from '../../protocol/usage.ts'
import type { WorkerState } from '../../protocol/worker.ts'
import { type NumberedFrame, ReferenceOutbox } from '../simulation/reference-outbox.ts'
import { Random } from './random.ts'

// ---- scripts -----------------------------------------------------------------------------------------------------

export type ScriptStep =
  | { readonly does: 'patch'; readonly patch: RunPatch }
  | { readonly does: 'log'; readonly text: string }
  | { readonly does: 'artifact'; readonly name: string; readonly parts: readonly Buffer[] }
  | { readonly does: 'memories'; readonly facts: readonly string[] }
  | { readonly does: 'usage'; readonly sessionId: string; readonly entries: readonly UsageEntry[] }
  /** Pauses the script until the promise resolves. */
  | { readonly does: 'wait'; readonly until: Promise<unknown> }
  | { readonly does: 'complete'; readonly outcome: RunOutcome }

export type ExecutionScript = (job: Job, random: Random) => readonly ScriptStep[]

export const USAGE_PROJECT = 'scripted'

/** A typical run: log lines, an artifact, a memory, usage and a completion. */
export function defaultScript({ run }: Job, random: Random): readonly ScriptStep[] {
  const logLine = (n: number): ScriptStep => ({ does: 'log', text: `${run.ticket.identifier} line ${n}` })
  const lines = Array.from({ length: 3 + random.below(10) }, (_, n) => logLine(n))
  const name = `${run.ticket.identifier}.txt`
  const artifact: ScriptStep = { does: 'artifact', name, parts: randomParts(random) }
  // Often last, so that the completion waits behind an artifact that is being written.
  const place = random.chance(0.5) ? lines.length : random.below(lines.length)
  const [before, after] = [lines.slice(0, place), lines.slice(place)]
  return [
    { does: 'patch', patch: { status: 'running', agentSessionId: `session-${run.id}` } },
    ...before,
    ...(after.length > 0 ? [artifact] : []),
    { does: 'memories', facts: [`fact of ${run.ticket.identifier}`] },
    ...after,
    { does: 'usage', sessionId: run.id, entries: [{ id: run.id, at: run.createdAt, model: 'm', ...TOKENS }] },
    { does: 'patch', patch: { status: 'finalizing' } },
    ...(after.length > 0 ? [] : [artifact]),
    {
      does: 'complete',
      outcome: {
        status: 'completed',
        result: { summary: `done with ${run.ticket.identifier}`, artifacts: [name] },
        costs: [costOf(run.id)],
        sandbox: { id: `sb-${run.id}` },
      },
    },
  ]
}

function randomParts(random: Random): readonly Buffer[] {
  return Array.from({ length: 1 + random.below(3) }, () =>
    Buffer.from(Array.from({ length: 1 + random.below(2_000) }, () => random.below(256))),
  )
}

const TOKENS = { inputTokens: 10, outputTokens: 5, cacheReadTokens: 0, cacheWriteTokens: 0 }

export const costOf = (model: string) =>
  ({ label: 'run', provider: 'agentA', model, ...TOKENS, estimated: false }) as const

// ---- executions --------------------------------------------------------------------------------------------------

/** How an execution ended on its worker. */
export type ExecutionEnding = RunOutcome['status'] | 'lost' | 'expired' | 'revoked'

/** An execution of a run, as its worker recorded it. Times are monotonic milliseconds. */
export interface ScriptedExecution {
  readonly worker: string
  readonly leaseId: string
  readonly runId: string
  readonly ticket: string
  readonly steps: readonly ScriptStep[]
  readonly startedAt: number
  endedAt: number | undefined
  ending: ExecutionEnding | undefined
  /** When the host acknowledged the completion. */
  acknowledgedAt: number | undefined
}

// ---- the worker --------------------------------------------------------------------------------------------------

export type FrameDirection = 'sent' | 'received'

export interface ScriptedWorkerOptions {
  readonly name: string
  /** Called for each connection, because a host may restart at another address. */
  readonly url: () => string
  readonly token: string
  readonly seed: number
  readonly concurrency?: number
  /** Overrides the host's heartbeat interval. */
  readonly heartbeatMs?: number
  readonly script?: ExecutionScript
  /** The longest pause before a step. */
  readonly pauseMsMax?: number
  readonly bufferFramesMax?: number
  /** Whether to record every frame in both directions. */
  readonly recordFrames?: boolean
  readonly onFrame?: (direction: FrameDirection, frame: WorkerFrame | HostFrame) => void
}

interface ScriptedLease {
  readonly id: string
  readonly job: Job
  readonly outbox: ReferenceOutbox
  readonly execution: ScriptedExecution
  expiresAt: string
  /** Expiry on the worker's monotonic clock. */
  expiresAtMs: number
  expiryTimer: NodeJS.Timeout | undefined
  stopping: boolean
}

interface FleetConnection {
  readonly socket: WebSocket
  readonly token: string | undefined
  registered: boolean
  registerSentAt: number
  lastFrameAt: number
  heartbeatTimer: NodeJS.Timeout | undefined
  /** By lease: the highest frame number sent on this connection, once the host's ack is known. */
  readonly sentSeqs: Map<string, number>
  readonly ackedSeqs: Map<string, number>
}

const BACKOFF_MS_FIRST = 20
const BACKOFF_MS_MAX = 300
const SILENCE_MS = 45_000
/** The share of a lease's remaining time that its worker uses. */
const LEASE_SHARE = 0.9

export class ScriptedWorker {
  readonly name: string
  readonly executions: ScriptedExecution[] = []
  readonly rejections: { readonly code: RejectionCode; readonly reason: string }[] = []
  /** Rejected dispatches with their reasons. */
  readonly refusals: { readonly leaseId: string; readonly runId: string; readonly reason: string }[] = []
  /** Runs whose sandboxes the host asked to delete. */
  readonly discarded: string[] = []
  readonly recordedFrames: { readonly direction: FrameDirection; readonly frame: WorkerFrame | HostFrame }[] =
    []
  credential: { readonly workerId: string; readonly secret: string } | undefined
  /** The name that the host gave this worker. */
  nameAtHost: string | undefined
  state: WorkerState = 'active'
  isRevoked = false
  connections = 0
  readonly #options: ScriptedWorkerOptions
  readonly #random: Random
  readonly #leases = new Map<string, ScriptedLease>()
  readonly #endedLeases = new Set<string>()
  #token: string | undefined
  #connection: FleetConnection | undefined
  #redial: NodeJS.Timeout | undefined
  #attempts = 0
  #isRunning = false

  constructor(parts: ScriptedWorkerOptions) {
    this.#options = parts
    this.#token = parts.token
    this.#random = new Random(parts.seed)
    this.name = parts.name
  }

  get isRegistered(): boolean {
    return this.#connection?.registered === true
  }

  get workerId(): string {
    if (this.credential === undefined) throw new Error(`${this.name} is not registered`)
    return this.credential.workerId
  }

  /** Leases that a registration would claim now. */
  get claims(): readonly string[] {
    return [...this.#leases.keys()]
  }

  get executing(): number {
    let count = 0
    for (const { execution } of this.#leases.values()) if (execution.endedAt === undefined) count += 1
    return count
  }

  start(): void {
    if (this.#isRunning) return
    this.#isRunning = true
    this.#dial()
  }

  /** Stops for good without sending anything, as when its machine loses power. */
  stop(): void {
    this.#isRunning = false
    clearTimeout(this.#redial)
    for (const held of this.#leases.values()) {
      held.stopping = true
      clearTimeout(held.expiryTimer)
    }
    this.#closeConnection()
  }

  /** Breaks the connection; the worker reconnects by itself. */
  dropConnection(): void {
    if (this.#connection !== undefined) this.#onDisconnected(this.#connection)
  }

  /** Opens another connection while the old one is still open, as after a change of networks. */
  connectAgain(): void {
    if (this.#connection === undefined || !this.#isRunning) return
    clearTimeout(this.#connection.heartbeatTimer)
    this.#dial()
  }

  // ---- connection --------------------------------------------------------------------------------------------------

  #dial(): void {
    const { credential } = this
    if (credential === undefined && this.#token === undefined) return
    const socket = new WebSocket(this.#options.url())
    const connection: FleetConnection = {
      socket,
      token: credential === undefined ? this.#token : undefined,
      registered: false,
      registerSentAt: 0,
      lastFrameAt: now(),
      heartbeatTimer: undefined,
      sentSeqs: new Map(),
      ackedSeqs: new Map(),
    }
    this.#connection = connection
    socket.addEventListener('open', () => this.#register(connection))
    socket.addEventListener('message', ({ data }) => this.#onFrame(connection, String(data)))
    socket.addEventListener('error', () => {})
    socket.addEventListener('close', () => this.#onDisconnected(connection))
  }

  /** Sends a frame beside the script. */
  sendFrame(frame: WorkerFrame): void {
    if (this.#connection !== undefined) this.#send(this.#connection, frame)
  }

  #register(connection: FleetConnection): void {
    if (this.#connection !== connection) return
    connection.registerSentAt = now()
    const { credential } = this
    this.#send(connection, {
      type: 'register',
      protocolVersion: PROTOCOL_VERSION,
      oldestProtocolVersion: PROTOCOL_VERSION,
      auth:
        connection.token === undefined && credential !== undefined
          ? { kind: 'credential', ...credential }
          : { kind: 'pairing', token: connection.token ?? '' },
      name: this.name,
      capabilities: {
        os: 'linux',
        arch: 'x64',
        provider: 'bwrap',
        maxConcurrency: this.#options.concurrency ?? 2,
        version: '0.1.0',
      },
      activeLeases: this.#activeLeases(),
    })
  }

  #onDisconnected(connection: FleetConnection): void {
    if (this.#connection !== connection) return
    this.#closeConnection()
    if (!this.#isRunning) return
    this.#attempts += 1
    const most = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_FIRST * 2 ** (this.#attempts - 1))
    this.#redial = setTimeout(() => this.#dial(), most * (0.5 + this.#random.fraction() / 2))
  }

  #closeConnection(): void {
    const connection = this.#connection
    this.#connection = undefined
    clearTimeout(connection?.heartbeatTimer)
    if (connection !== undefined && connection.socket.readyState <= WebSocket.OPEN) connection.socket.close()
  }

  #scheduleHeartbeat(connection: FleetConnection, intervalMs: number): void {
    connection.heartbeatTimer = setTimeout(() => {
      if (this.#connection !== connection) return
      if (now() - connection.lastFrameAt > SILENCE_MS) return this.#onDisconnected(connection)
      this.#send(connection, {
        type: 'heartbeat',
        leases: this.#activeLeases(),
        attachSessions: 0,
        sentAt: now(),
      })
      this.#scheduleHeartbeat(connection, intervalMs)
    }, intervalMs)
  }

  #activeLeases() {
    return [...this.#leases.values()].map(({ id, execution, expiresAt, outbox }) => ({
      id,
      runId: execution.runId,
      expiresAt,
      lastSeq: outbox.lastSeq,
    }))
  }

  #send(connection: FleetConnection, frame: WorkerFrame): void {
    if (connection.socket.readyState !== WebSocket.OPEN) return
    connection.socket.send(JSON.stringify(frame))
    this.#recordFrame('sent', frame)
  }

  #recordFrame(direction: FrameDirection, frame: WorkerFrame | HostFrame): void {
    if (this.#options.recordFrames === true) this.recordedFrames.push({ direction, frame })
    this.#options.onFrame?.(direction, frame)
  }

  // ---- frames of the host ----------------------------------------------------------------------------------------

  #onFrame(connection: FleetConnection, text: string): void {
    if (this.#connection !== connection || !this.#isRunning) return
    connection.lastFrameAt = now()
    // Only the host under test sends frames, and other tests check their shape.
    const frame = JSON.parse(text) as HostFrame
    this.#recordFrame('received', frame)
    switch (frame.type) {
      case 'registered':
        this.#onRegistered(connection, frame)
        return
      case 'rejected':
        this.#onRejected(connection, frame)
        return
      case 'heartbeat-ack':
      case 'worker-state':
        this.state = frame.state
        return
      case 'dispatch':
        this.#onDispatch(connection, frame)
        return
      case 'lease-ack':
        this.#onLeaseAck(connection, frame)
        return
      case 'run-complete-ack':
        this.#onCompletionAck(frame.leaseId)
        return
      case 'lease-lost':
        this.#abandonLease(frame.leaseId, 'lost')
        return
      case 'cancel':
        this.#cancel(frame.leaseId)
        return
      case 'discard':
        this.discarded.push(frame.runId)
        return
      case 'revoked':
        this.#onRevoked()
        return
    }
  }

  #onRegistered(connection: FleetConnection, frame: HostFrameOf<'registered'>): void {
    if (frame.credential !== undefined)
      this.credential = { workerId: frame.workerId, secret: frame.credential }
    this.#token = undefined
    this.nameAtHost = frame.name
    this.state = frame.state
    this.#attempts = 0
    this.connections += 1
    connection.registered = true
    this.#scheduleHeartbeat(connection, this.#options.heartbeatMs ?? frame.heartbeatIntervalMs)
  }

  #onRejected(connection: FleetConnection, { code, reason }: HostFrameOf<'rejected'>): void {
    this.rejections.push({ code, reason })
    if (code === 'unauthorized') this.credential = undefined
    if (connection.token !== undefined) this.#token = undefined
  }

  #onRevoked(): void {
    this.isRevoked = true
    this.credential = undefined
    for (const id of this.claims) this.#abandonLease(id, 'revoked')
    this.stop()
  }

  #onDispatch(connection: FleetConnection, { lease, job }: HostFrameOf<'dispatch'>): void {
    const { id: leaseId, runId } = lease
    const reason = this.#leases.has(leaseId) ? undefined : this.#refusalReason(leaseId)
    if (reason !== undefined) {
      this.refusals.push({ leaseId, runId, reason })
      this.#send(connection, { type: 'dispatch-rejected', leaseId, reason })
      return
    }
    const held = this.#leases.has(leaseId) ? undefined : this.#addLease(lease, job)
    if (held !== undefined) connection.sentSeqs.set(leaseId, 0)
    this.#send(connection, { type: 'dispatch-accepted', leaseId })
    if (held !== undefined) void this.#execute(held)
  }

  #refusalReason(leaseId: string): string | undefined {
    if (this.#endedLeases.has(leaseId)) return 'busy: that lease has ended'
    if (this.state === 'draining') return 'draining: no new runs'
    return this.executing < (this.#options.concurrency ?? 2) ? undefined : 'busy: no free slot'
  }

  #addLease(lease: HostFrameOf<'dispatch'>['lease'], job: Job): ScriptedLease {
    const { runId } = lease
    // The newer lease of a run fences off the older one.
    for (const held of [...this.#leases.values()])
      if (held.execution.runId === runId) this.#abandonLease(held.id, 'lost')
    const script = this.#options.script ?? defaultScript
    const execution: ScriptedExecution = {
      worker: this.name,
      leaseId: lease.id,
      runId,
      ticket: job.run.ticket.id,
      steps: script(job, new Random(seedOf(lease.id))),
      startedAt: now(),
      endedAt: undefined,
      ending: undefined,
      acknowledgedAt: undefined,
    }
    const held: ScriptedLease = {
      id: lease.id,
      job,
      outbox: new ReferenceOutbox(lease.id, this.#options.bufferFramesMax ?? WORKER_BUFFER_FRAMES_MAX),
      execution,
      expiresAt: lease.expiresAt,
      expiresAtMs: now() + lease.remainingMs * LEASE_SHARE,
      expiryTimer: undefined,
      stopping: false,
    }
    this.executions.push(execution)
    this.#leases.set(lease.id, held)
    this.#scheduleExpiry(held)
    return held
  }

  #onLeaseAck(connection: FleetConnection, { leases, echo }: HostFrameOf<'lease-ack'>): void {
    const since = echo ?? connection.registerSentAt
    for (const { leaseId, seq, expiresAt, remainingMs } of leases) {
      const held = this.#leases.get(leaseId)
      if (held === undefined) continue
      held.expiresAt = expiresAt
      held.expiresAtMs = Math.max(held.expiresAtMs, since + remainingMs * LEASE_SHARE)
      held.outbox.trim(seq)
      const isFirst = !connection.sentSeqs.has(leaseId)
      const isRepeated = connection.ackedSeqs.get(leaseId) === seq
      connection.ackedSeqs.set(leaseId, seq)
      if (isFirst || isRepeated) connection.sentSeqs.set(leaseId, seq)
      this.#flush(held)
    }
  }

  // ---- ends of leases ------------------------------------------------------------------------------------------

  #onCompletionAck(leaseId: string): void {
    const held = this.#leases.get(leaseId)
    if (held !== undefined) held.execution.acknowledgedAt = now()
    this.#removeLease(leaseId)
  }

  #abandonLease(leaseId: string, how: ExecutionEnding): void {
    const held = this.#leases.get(leaseId)
    if (held !== undefined) this.#recordEnd(held, how)
    this.#removeLease(leaseId)
  }

  #removeLease(leaseId: string): void {
    const held = this.#leases.get(leaseId)
    if (held === undefined) return
    held.stopping = true
    clearTimeout(held.expiryTimer)
    this.#endedLeases.add(leaseId)
    this.#leases.delete(leaseId)
  }

  #recordEnd({ execution }: ScriptedLease, how: ExecutionEnding): void {
    execution.endedAt ??= now()
    execution.ending ??= how
  }

  /** Abandons the lease at its expiry when the host has not extended it. */
  #scheduleExpiry(held: ScriptedLease): void {
    held.expiryTimer = setTimeout(() => {
      if (now() < held.expiresAtMs) this.#scheduleExpiry(held)
      // A finished execution does not expire, because its completion is not acknowledged yet.
      else if (held.execution.endedAt === undefined) this.#abandonLease(held.id, 'expired')
    }, held.expiresAtMs - now())
  }

  // ---- executing -------------------------------------------------------------------------------------------------

  async #execute(held: ScriptedLease): Promise<void> {
    for (const step of held.execution.steps) {
      if (step.does === 'wait') await Promise.race([step.until, this.#whenStopping(held)])
      else await this.#pause()
      if (held.stopping) return
      this.#reportStep(held, step)
    }
  }

  async #whenStopping(held: ScriptedLease): Promise<void> {
    while (!held.stopping) await new Promise((resolve) => setTimeout(resolve, 5))
  }

  /** Agents print several lines at once and then pause. */
  #pause(): Promise<void> {
    if (this.#random.chance(0.5)) return Promise.resolve()
    return new Promise((resolve) => setTimeout(resolve, this.#random.below(this.#options.pauseMsMax ?? 5)))
  }

  #cancel(leaseId: string): void {
    const held = this.#leases.get(leaseId)
    if (held === undefined || held.execution.endedAt !== undefined) return
    held.stopping = true
    this.#complete(held, { status: 'cancelled', costs: [costOf(held.execution.runId)] })
  }

  #complete(held: ScriptedLease, outcome: RunOutcome): void {
    this.#recordEnd(held, outcome.status)
    this.#report(held, (seq) => ({ type: 'run-complete', leaseId: held.id, seq, outcome }))
  }

  #reportStep(held: ScriptedLease, step: ScriptStep): void {
    const leaseId = held.id
    switch (step.does) {
      case 'patch':
        this.#report(held, (seq) => ({ type: 'run-patch', leaseId, seq, patch: step.patch }))
        return
      case 'log': {
        const event = { type: 'log', at: instant(), stream: 'stdout', text: step.text } as const
        this.#report(held, (seq) => ({ type: 'run-event', leaseId, seq, event }))
        return
      }
      case 'artifact':
        this.#reportArtifact(held, step)
        return
      case 'memories': {
        const facts = [...step.facts]
        const repo = held.job.repo.remote
        this.#report(held, (seq) => ({ type: 'run-memories', leaseId, seq, repo, facts }))
        return
      }
      case 'usage':
        this.#reportUsage(held, step)
        return
      case 'complete':
        this.#complete(held, step.outcome)
        return
    }
  }

  #reportArtifact(held: ScriptedLease, { name, parts }: Extract<ScriptStep, { does: 'artifact' }>): void {
    for (const [part, piece] of parts.entries()) {
      const final = part === parts.length - 1
      const data = piece.toString('base64')
      this.#report(held, (seq) => ({
        type: 'run-artifact',
        leaseId: held.id,
        seq,
        name,
        part,
        final,
        data,
      }))
    }
  }

  #reportUsage(held: ScriptedLease, { sessionId, entries }: Extract<ScriptStep, { does: 'usage' }>): void {
    const sha256 = createHash('sha256').update(usageText(entries)).digest('hex')
    const snapshot = { projectKey: USAGE_PROJECT, sessionId, entries: [...entries], sha256 }
    this.#report(held, (seq) => ({ type: 'run-usage-snapshot', leaseId: held.id, seq, snapshot }))
  }

  #report(held: ScriptedLease, make: (seq: number) => NumberedFrame): void {
    held.outbox.append(make)
    held.outbox.save()
    this.#flush(held)
  }

  /** On a new connection, sends frames of a lease only after the host has acknowledged its watermark. */
  #flush({ id, outbox }: ScriptedLease): void {
    const connection = this.#connection
    const sent = connection?.sentSeqs.get(id)
    if (connection === undefined || sent === undefined || !connection.registered) return
    for (const { seq, frame } of outbox.framesAfter(sent)) {
      connection.sentSeqs.set(id, seq)
      this.#send(connection, frame)
    }
  }
}

const now = (): number => performance.now()
const instant = (): string => new Date().toISOString()

function seedOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32LE()
}
