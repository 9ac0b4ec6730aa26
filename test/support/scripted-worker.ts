/**
 * A worker on a real socket, without agents and sandboxes: an execution is a script of reports.
 *
 * It keeps the worker's side of the channel as the specification has it: numbers in each lease, frames kept until they
 * are acknowledged and sent again at most once for each ack or new connection, leases claimed until their completion is
 * acknowledged, and given up by itself when their time is over. What it executed stands in a ledger that a test
 * compares with what the host says. It knows no test framework, so that it can live in a process of its own, too.
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
import { type NumberedFrame, Outbox } from '../simulation/outbox.ts'
import { Random } from './random.ts'

// ---- scripts -----------------------------------------------------------------------------------------------------

export type Step =
  | { readonly does: 'patch'; readonly patch: RunPatch }
  | { readonly does: 'log'; readonly text: string }
  | { readonly does: 'artifact'; readonly name: string; readonly parts: readonly Buffer[] }
  | { readonly does: 'memories'; readonly facts: readonly string[] }
  | { readonly does: 'usage'; readonly sessionId: string; readonly entries: readonly UsageEntry[] }
  /** Nothing is reported until it resolves. */
  | { readonly does: 'wait'; readonly until: Promise<unknown> }
  | { readonly does: 'complete'; readonly outcome: RunOutcome }

export type Script = (job: Job, random: Random) => readonly Step[]

export const USAGE_PROJECT = 'scripted'

/** A run as they mostly are: it says things, leaves a file, learns a fact, costs something and is done. */
export function usualScript({ run }: Job, random: Random): readonly Step[] {
  const said = (n: number): Step => ({ does: 'log', text: `${run.ticket.identifier} line ${n}` })
  const lines = Array.from({ length: 3 + random.below(10) }, (_, n) => said(n))
  const name = `${run.ticket.identifier}.txt`
  const artifact: Step = { does: 'artifact', name, parts: somePieces(random) }
  // Often the very last thing: then the completion waits behind a file that is being written.
  const place = random.random(0.5) ? lines.length : random.below(lines.length)
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

function somePieces(random: Random): readonly Buffer[] {
  return Array.from({ length: 1 + random.below(3) }, () =>
    Buffer.from(Array.from({ length: 1 + random.below(2_000) }, () => random.below(256))),
  )
}

const TOKENS = { inputTokens: 10, outputTokens: 5, cacheReadTokens: 0, cacheWriteTokens: 0 }

export const costOf = (model: string) =>
  ({ label: 'run', provider: 'agentA', model, ...TOKENS, estimated: false }) as const

// ---- the ledger --------------------------------------------------------------------------------------------------

/** How an execution ended for its worker. */
export type Ending = RunOutcome['status'] | 'lost' | 'expired' | 'revoked'

/** One execution of one run, as its worker remembers it. Times are milliseconds that never go back. */
export interface Execution {
  readonly worker: string
  readonly leaseId: string
  readonly runId: string
  readonly ticket: string
  readonly steps: readonly Step[]
  readonly startedAt: number
  endedAt: number | undefined
  how: Ending | undefined
  /** When the host said that it has all of it. */
  acknowledgedAt: number | undefined
}

// ---- the worker --------------------------------------------------------------------------------------------------

export type Way = 'sent' | 'heard'

export interface ScriptedWorkerParts {
  readonly name: string
  /** Asked at each dialling, for a host may come back elsewhere. */
  readonly url: () => string
  readonly token: string
  readonly seed: number
  readonly concurrency?: number
  /** In place of what the host asks for. */
  readonly heartbeatMs?: number
  readonly script?: Script
  /** The longest pause before a step. */
  readonly pauseMsMax?: number
  readonly bufferFramesMax?: number
  /** Keeps every frame, both ways. */
  readonly journal?: boolean
  readonly onFrame?: (way: Way, frame: WorkerFrame | HostFrame) => void
}

interface Held {
  readonly id: string
  readonly job: Job
  readonly outbox: Outbox
  readonly execution: Execution
  expiresAt: string
  /** On the worker's own clock. */
  deadline: number
  guard: NodeJS.Timeout | undefined
  stopping: boolean
}

interface Line {
  readonly socket: WebSocket
  readonly token: string | undefined
  registered: boolean
  registerSentAt: number
  heardAt: number
  beat: NodeJS.Timeout | undefined
  /** By lease: the highest number sent on this line, once the host has said how far it is. */
  readonly sent: Map<string, number>
  readonly acked: Map<string, number>
}

const BACKOFF_MS_FIRST = 20
const BACKOFF_MS_MAX = 300
const SILENCE_MS = 45_000
/** The part of a lease's time that its worker uses. */
const OWN_SHARE = 0.9

export class ScriptedWorker {
  readonly name: string
  readonly executions: Execution[] = []
  readonly rejections: { readonly code: RejectionCode; readonly reason: string }[] = []
  /** Dispatches it did not take, with the reason it gave. */
  readonly refusals: { readonly leaseId: string; readonly runId: string; readonly reason: string }[] = []
  /** Runs whose sandbox it was told to delete. */
  readonly discarded: string[] = []
  readonly journal: { readonly way: Way; readonly frame: WorkerFrame | HostFrame }[] = []
  credential: { readonly workerId: string; readonly secret: string } | undefined
  /** What the fleet calls it. */
  knownAs: string | undefined
  state: WorkerState = 'active'
  isRevoked = false
  connections = 0
  readonly #parts: ScriptedWorkerParts
  readonly #random: Random
  readonly #leases = new Map<string, Held>()
  readonly #over = new Set<string>()
  #token: string | undefined
  #line: Line | undefined
  #redial: NodeJS.Timeout | undefined
  #attempts = 0
  #isOn = false

  constructor(parts: ScriptedWorkerParts) {
    this.#parts = parts
    this.#token = parts.token
    this.#random = new Random(parts.seed)
    this.name = parts.name
  }

  get isRegistered(): boolean {
    return this.#line?.registered === true
  }

  get workerId(): string {
    if (this.credential === undefined) throw new Error(`${this.name} is not enrolled`)
    return this.credential.workerId
  }

  /** Leases it would claim now. */
  get claims(): readonly string[] {
    return [...this.#leases.keys()]
  }

  get executing(): number {
    let count = 0
    for (const { execution } of this.#leases.values()) if (execution.endedAt === undefined) count += 1
    return count
  }

  start(): void {
    if (this.#isOn) return
    this.#isOn = true
    this.#dial()
  }

  /** For good, and without a word, as when its machine loses power. */
  stop(): void {
    this.#isOn = false
    clearTimeout(this.#redial)
    for (const held of this.#leases.values()) {
      held.stopping = true
      clearTimeout(held.guard)
    }
    this.#hangUp()
  }

  /** The line breaks; it comes back by itself. */
  drop(): void {
    if (this.#line !== undefined) this.#lost(this.#line)
  }

  /** Dials once more while the old line still stands, as after a change of networks. */
  connectAgain(): void {
    if (this.#line === undefined || !this.#isOn) return
    clearTimeout(this.#line.beat)
    this.#dial()
  }

  // ---- the line --------------------------------------------------------------------------------------------------

  #dial(): void {
    const { credential } = this
    if (credential === undefined && this.#token === undefined) return
    const socket = new WebSocket(this.#parts.url())
    const line: Line = {
      socket,
      token: credential === undefined ? this.#token : undefined,
      registered: false,
      registerSentAt: 0,
      heardAt: now(),
      beat: undefined,
      sent: new Map(),
      acked: new Map(),
    }
    this.#line = line
    socket.addEventListener('open', () => this.#register(line))
    socket.addEventListener('message', ({ data }) => this.#hear(line, String(data)))
    socket.addEventListener('error', () => {})
    socket.addEventListener('close', () => this.#lost(line))
  }

  #register(line: Line): void {
    if (this.#line !== line) return
    line.registerSentAt = now()
    const { credential } = this
    this.#send(line, {
      type: 'register',
      protocolVersion: PROTOCOL_VERSION,
      auth:
        line.token === undefined && credential !== undefined
          ? { kind: 'credential', ...credential }
          : { kind: 'pairing', token: line.token ?? '' },
      name: this.name,
      capabilities: {
        os: 'linux',
        arch: 'x64',
        provider: 'bwrap',
        maxConcurrency: this.#parts.concurrency ?? 2,
        version: '0.1.0',
      },
      activeLeases: this.#claimed(),
    })
  }

  #lost(line: Line): void {
    if (this.#line !== line) return
    this.#hangUp()
    if (!this.#isOn) return
    this.#attempts += 1
    const most = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_FIRST * 2 ** (this.#attempts - 1))
    this.#redial = setTimeout(() => this.#dial(), most * (0.5 + this.#random.fraction() / 2))
  }

  #hangUp(): void {
    const line = this.#line
    this.#line = undefined
    clearTimeout(line?.beat)
    if (line !== undefined && line.socket.readyState <= WebSocket.OPEN) line.socket.close()
  }

  #beatLater(line: Line, intervalMs: number): void {
    line.beat = setTimeout(() => {
      if (this.#line !== line) return
      if (now() - line.heardAt > SILENCE_MS) return this.#lost(line)
      this.#send(line, { type: 'heartbeat', leases: this.#claimed(), attachSessions: 0, sentAt: now() })
      this.#beatLater(line, intervalMs)
    }, intervalMs)
  }

  #claimed() {
    return [...this.#leases.values()].map(({ id, execution, expiresAt, outbox }) => ({
      id,
      runId: execution.runId,
      expiresAt,
      lastSeq: outbox.lastSeq,
    }))
  }

  #send(line: Line, frame: WorkerFrame): void {
    if (line.socket.readyState !== WebSocket.OPEN) return
    line.socket.send(JSON.stringify(frame))
    this.#note('sent', frame)
  }

  #note(way: Way, frame: WorkerFrame | HostFrame): void {
    if (this.#parts.journal === true) this.journal.push({ way, frame })
    this.#parts.onFrame?.(way, frame)
  }

  // ---- what the host says ----------------------------------------------------------------------------------------

  #hear(line: Line, text: string): void {
    if (this.#line !== line || !this.#isOn) return
    line.heardAt = now()
    // Only the host of the test speaks here, and its frames have tests of their own.
    const frame = JSON.parse(text) as HostFrame
    this.#note('heard', frame)
    switch (frame.type) {
      case 'registered':
        this.#welcomed(line, frame)
        return
      case 'rejected':
        this.#rejected(line, frame)
        return
      case 'heartbeat-ack':
      case 'worker-state':
        this.state = frame.state
        return
      case 'dispatch':
        this.#dispatched(line, frame)
        return
      case 'lease-ack':
        this.#acknowledged(line, frame)
        return
      case 'run-complete-ack':
        this.#done(frame.leaseId)
        return
      case 'lease-lost':
        this.#giveUp(frame.leaseId, 'lost')
        return
      case 'cancel':
        this.#cancel(frame.leaseId)
        return
      case 'discard':
        this.discarded.push(frame.runId)
        return
      case 'revoked':
        this.#revoked()
        return
    }
  }

  #welcomed(line: Line, frame: HostFrameOf<'registered'>): void {
    if (frame.credential !== undefined)
      this.credential = { workerId: frame.workerId, secret: frame.credential }
    this.#token = undefined
    this.knownAs = frame.name
    this.state = frame.state
    this.#attempts = 0
    this.connections += 1
    line.registered = true
    this.#beatLater(line, this.#parts.heartbeatMs ?? frame.heartbeatIntervalMs)
  }

  #rejected(line: Line, { code, reason }: HostFrameOf<'rejected'>): void {
    this.rejections.push({ code, reason })
    if (code === 'unauthorized') this.credential = undefined
    if (line.token !== undefined) this.#token = undefined
  }

  #revoked(): void {
    this.isRevoked = true
    this.credential = undefined
    for (const id of this.claims) this.#giveUp(id, 'revoked')
    this.stop()
  }

  #dispatched(line: Line, { lease, job }: HostFrameOf<'dispatch'>): void {
    const { id: leaseId, runId } = lease
    const reason = this.#leases.has(leaseId) ? undefined : this.#objection(leaseId)
    if (reason !== undefined) {
      this.refusals.push({ leaseId, runId, reason })
      this.#send(line, { type: 'dispatch-rejected', leaseId, reason })
      return
    }
    const held = this.#leases.has(leaseId) ? undefined : this.#hold(lease, job)
    if (held !== undefined) line.sent.set(leaseId, 0)
    this.#send(line, { type: 'dispatch-accepted', leaseId })
    if (held !== undefined) void this.#execute(held)
  }

  #objection(leaseId: string): string | undefined {
    if (this.#over.has(leaseId)) return 'busy: this lease is over'
    if (this.state === 'draining') return 'draining: the worker is draining'
    return this.executing < (this.#parts.concurrency ?? 2) ? undefined : 'busy: no room'
  }

  #hold(lease: HostFrameOf<'dispatch'>['lease'], job: Job): Held {
    const { runId } = lease
    // The newer lease of a run fences the older one off.
    for (const held of [...this.#leases.values()])
      if (held.execution.runId === runId) this.#giveUp(held.id, 'lost')
    const script = this.#parts.script ?? usualScript
    const execution: Execution = {
      worker: this.name,
      leaseId: lease.id,
      runId,
      ticket: job.run.ticket.id,
      steps: script(job, new Random(seedOf(lease.id))),
      startedAt: now(),
      endedAt: undefined,
      how: undefined,
      acknowledgedAt: undefined,
    }
    const held: Held = {
      id: lease.id,
      job,
      outbox: new Outbox(lease.id, this.#parts.bufferFramesMax ?? WORKER_BUFFER_FRAMES_MAX),
      execution,
      expiresAt: lease.expiresAt,
      deadline: now() + lease.remainingMs * OWN_SHARE,
      guard: undefined,
      stopping: false,
    }
    this.executions.push(execution)
    this.#leases.set(lease.id, held)
    this.#watchOver(held)
    return held
  }

  #acknowledged(line: Line, { leases, echo }: HostFrameOf<'lease-ack'>): void {
    const since = echo ?? line.registerSentAt
    for (const { leaseId, seq, expiresAt, remainingMs } of leases) {
      const held = this.#leases.get(leaseId)
      if (held === undefined) continue
      held.expiresAt = expiresAt
      held.deadline = Math.max(held.deadline, since + remainingMs * OWN_SHARE)
      held.outbox.trim(seq)
      const isFirst = !line.sent.has(leaseId)
      const isRepeated = line.acked.get(leaseId) === seq
      line.acked.set(leaseId, seq)
      if (isFirst || isRepeated) line.sent.set(leaseId, seq)
      this.#flush(held)
    }
  }

  // ---- the ends of leases ------------------------------------------------------------------------------------------

  #done(leaseId: string): void {
    const held = this.#leases.get(leaseId)
    if (held !== undefined) held.execution.acknowledgedAt = now()
    this.#drop(leaseId)
  }

  #giveUp(leaseId: string, how: Ending): void {
    const held = this.#leases.get(leaseId)
    if (held !== undefined) this.#ended(held, how)
    this.#drop(leaseId)
  }

  #drop(leaseId: string): void {
    const held = this.#leases.get(leaseId)
    if (held === undefined) return
    held.stopping = true
    clearTimeout(held.guard)
    this.#over.add(leaseId)
    this.#leases.delete(leaseId)
  }

  #ended({ execution }: Held, how: Ending): void {
    execution.endedAt ??= now()
    execution.how ??= how
  }

  /** Without word of the host it ends by itself, in time for whoever comes next. */
  #watchOver(held: Held): void {
    held.guard = setTimeout(() => {
      if (now() < held.deadline) this.#watchOver(held)
      // What is finished is over for nobody: its completion is still to be told.
      else if (held.execution.endedAt === undefined) this.#giveUp(held.id, 'expired')
    }, held.deadline - now())
  }

  // ---- executing -------------------------------------------------------------------------------------------------

  async #execute(held: Held): Promise<void> {
    for (const step of held.execution.steps) {
      if (step.does === 'wait') await Promise.race([step.until, this.#whenStopping(held)])
      else await this.#pause()
      if (held.stopping) return
      this.#play(held, step)
    }
  }

  async #whenStopping(held: Held): Promise<void> {
    while (!held.stopping) await new Promise((resolve) => setTimeout(resolve, 5))
  }

  /** Agents say several things at once, and then nothing for a while. */
  #pause(): Promise<void> {
    if (this.#random.random(0.5)) return Promise.resolve()
    return new Promise((resolve) => setTimeout(resolve, this.#random.below(this.#parts.pauseMsMax ?? 5)))
  }

  #cancel(leaseId: string): void {
    const held = this.#leases.get(leaseId)
    if (held === undefined || held.execution.endedAt !== undefined) return
    held.stopping = true
    this.#complete(held, { status: 'cancelled', costs: [costOf(held.execution.runId)] })
  }

  #complete(held: Held, outcome: RunOutcome): void {
    this.#ended(held, outcome.status)
    this.#report(held, (seq) => ({ type: 'run-complete', leaseId: held.id, seq, outcome }))
  }

  #play(held: Held, step: Step): void {
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
        this.#leave(held, step)
        return
      case 'memories': {
        const facts = [...step.facts]
        const repo = held.job.repo.remote
        this.#report(held, (seq) => ({ type: 'run-memories', leaseId, seq, repo, facts }))
        return
      }
      case 'usage':
        this.#export(held, step)
        return
      case 'complete':
        this.#complete(held, step.outcome)
        return
    }
  }

  #leave(held: Held, { name, parts }: Extract<Step, { does: 'artifact' }>): void {
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

  #export(held: Held, { sessionId, entries }: Extract<Step, { does: 'usage' }>): void {
    const sha256 = createHash('sha256').update(usageText(entries)).digest('hex')
    const snapshot = { projectKey: USAGE_PROJECT, sessionId, entries: [...entries], sha256 }
    this.#report(held, (seq) => ({ type: 'run-usage-snapshot', leaseId: held.id, seq, snapshot }))
  }

  #report(held: Held, make: (seq: number) => NumberedFrame): void {
    held.outbox.stamp(make)
    held.outbox.save()
    this.#flush(held)
  }

  /** Nothing of a lease is sent on a new line before the host has said how far it is. */
  #flush({ id, outbox }: Held): void {
    const line = this.#line
    const sent = line?.sent.get(id)
    if (line === undefined || sent === undefined || !line.registered) return
    for (const { seq, frame } of outbox.above(sent)) {
      line.sent.set(id, seq)
      this.#send(line, frame)
    }
  }
}

const now = (): number => performance.now()
const instant = (): string => new Date().toISOString()

function seedOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32LE()
}
