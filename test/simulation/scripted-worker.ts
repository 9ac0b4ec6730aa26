/**
 * A worker as the specification describes it, without agents and sandboxes: an execution is a script of reports.
 *
 * It is written from the specification and from nothing else, so that host and worker cannot be wrong in the same
 * way. What it knows is on a disk of its own and survives its crashes; a frame is sent only once it is there, so a
 * number never stands for two frames. Every frame carries its lease and number in what it reports, so that whoever
 * looks at the host's disk sees which ones were applied.
 */
import type { HostFrame, HostFrameOf, RunOutcome, RunPatch, WorkerFrame } from '../../protocol/frames.ts'
import { PROTOCOL_VERSION, WORKER_FIRST_FRAME_MS, WORKER_HEARTBEAT_MS } from '../../protocol/limits.ts'
import type { WorkerState } from '../../protocol/worker.ts'
import type { Wire, WorkerEar } from './network.ts'
import { type NumberedFrame, Outbox } from './outbox.ts'
import type { CommitPoint, WorkerPlan } from './plan.ts'
import { type Process, ProcessClock } from './timeline.ts'
import {
  costOf,
  type Execution,
  entryOf,
  type Foreign,
  meddling,
  type SimWorker,
  type WorkerParts,
} from './worker.ts'

const SILENCE_MS = 45_000
const BACKOFF_MS_FIRST = 1_000
const BACKOFF_MS_MAX = 15_000
/** The part of a lease's time that its worker uses. */
const OWN_SHARE = 0.9

interface Held {
  readonly id: string
  readonly runId: string
  expiresAt: string
  readonly outbox: Outbox
}

/** What survives the daemon. */
interface WorkerDisk {
  credential: { readonly workerId: string; readonly secret: string } | undefined
  readonly leases: Map<string, Held>
  /** Leases that are over, for dispatches that come again. */
  readonly over: Set<string>
}

interface Running extends Execution {
  stopAt: number
  readonly steps: Step[]
  /** On the worker's own clock. */
  deadline: number
  cancelling: boolean
}

interface Step {
  readonly afterMs: number
  readonly act: () => void
}

interface Connection {
  readonly wire: Wire
  registered: boolean
  registerSentAt: number
  heardAt: number
  /** By lease: the highest number sent on this connection, once the host has said how far it is. */
  readonly sent: Map<string, number>
  readonly lastAck: Map<string, number>
  /** Set when it enrolls with this connection. */
  readonly token: string | undefined
}

export class ScriptedWorker implements SimWorker {
  readonly plan: WorkerPlan
  readonly #parts: WorkerParts
  readonly #disk: WorkerDisk = { credential: undefined, leases: new Map(), over: new Set() }
  #process: Process | undefined
  #clock: ProcessClock | undefined
  #connection: Connection | undefined
  #token: string | undefined
  #asking = false
  #attempts = 0
  #state: WorkerState = 'active'
  #saving = false
  /** Revoked and gone home: only a person brings it back. */
  #retired = false
  /** Declines nothing that it can do. */
  #content = false
  readonly #executions = new Map<string, Running>()

  constructor(parts: WorkerParts) {
    this.plan = parts.plan
    this.#parts = parts
  }

  // ---- what others may know and do ---------------------------------------------------------------------------------

  get process(): Process | undefined {
    return this.#process
  }

  get isOn(): boolean {
    return this.#process !== undefined
  }

  get workerId(): string | undefined {
    return this.#disk.credential?.workerId
  }

  get secret(): string | undefined {
    return this.#disk.credential?.secret
  }

  get wire(): Wire | undefined {
    return this.#connection?.wire
  }

  get isRegistered(): boolean {
    return this.#connection?.registered === true
  }

  /** A script keeps no sandboxes. */
  get overdue(): readonly string[] {
    return []
  }

  usedIn(): number {
    return 0
  }

  get claims(): readonly string[] {
    return [...this.#disk.leases.keys()]
  }

  get executions(): readonly Execution[] {
    return [...this.#executions.values()]
  }

  takeToken(token: string): void {
    if (this.#disk.credential === undefined) this.#token = token
  }

  switchOn(): void {
    if (this.#process !== undefined || this.#retired) return
    const process: Process = {
      name: `${this.plan.id} at ${Math.floor(this.#parts.time.now)}`,
      dead: false,
      pausedUntil: 0,
      ends: undefined,
    }
    this.#process = process
    this.#clock = new ProcessClock(this.#parts.time, process, this.#parts.machine)
    this.#attempts = 0
    this.#state = 'active'
    for (const lease of [...this.#disk.leases.values()]) this.#pickUp(lease)
    this.#parts.time.in(0, () => this.#connect(), process)
  }

  crash(quiet: boolean): void {
    const process = this.#process
    if (process === undefined) return
    process.dead = true
    if (!quiet) this.#connection?.wire.workerCloses()
    else this.#connection?.wire.break(0.5, 1, undefined, undefined)
    this.#process = undefined
    this.#connection = undefined
    this.#asking = false
    this.#saving = false
    for (const execution of this.#executions.values()) this.#parts.watch.stopped(execution)
    this.#executions.clear()
    for (const { outbox } of this.#disk.leases.values()) outbox.crash()
  }

  /** It commits so often that any moment is as good as another. */
  crashAtCommit(count: number, _point: CommitPoint, then: () => void): boolean {
    this.#after(count, then)
    return this.isOn
  }

  stop(): boolean {
    return false
  }

  spoil(): boolean {
    return false
  }

  connectAgain(): void {
    if (this.#process !== undefined) this.#connect()
  }

  meddle(foreign: readonly Foreign[]): void {
    for (const frame of meddling(foreign, this.#claimed(), this.#instant(), this.#mono())) this.#send(frame)
  }

  settleDown(): void {
    this.#content = true
  }

  jump(ms: number): void {
    this.#parts.machine.wallOffset += ms
  }

  comeBack(): void {
    this.#retired = false
    this.switchOn()
  }

  // ---- connection ------------------------------------------------------------------------------------------------

  #connect(): void {
    const { credential } = this.#disk
    if (credential === undefined && this.#token === undefined) {
      this.#ask()
      return
    }
    const process = this.#process
    if (process === undefined) return
    const ear: WorkerEar = {
      opened: () => this.#mine(wire) && this.#register(),
      heard: (frame) => this.#mine(wire) && this.#hear(frame),
      closed: () => this.#mine(wire) && this.#lost(),
    }
    const wire: Wire = this.#parts.dial(process, ear, false)
    this.#connection = {
      wire,
      registered: false,
      registerSentAt: 0,
      heardAt: this.#mono(),
      sent: new Map(),
      lastAck: new Map(),
      token: credential === undefined ? this.#token : undefined,
    }
    wire.dial()
    this.#after(2 * WORKER_FIRST_FRAME_MS, () => {
      if (this.#mine(wire) && !this.isRegistered) this.#hangUp()
    })
  }

  #mine(wire: Wire): boolean {
    return this.#connection?.wire === wire
  }

  #ask(): void {
    if (this.#asking) return
    this.#asking = true
    const process = this.#process
    this.#parts.askForToken((token) => {
      if (process !== this.#process || process === undefined) return
      this.#asking = false
      this.#token = token
      this.#connect()
    })
  }

  #register(): void {
    const connection = this.#connection
    if (connection === undefined) return
    const { credential } = this.#disk
    connection.registerSentAt = this.#mono()
    this.#send({
      type: 'register',
      protocolVersion: PROTOCOL_VERSION,
      auth:
        connection.token === undefined && credential !== undefined
          ? { kind: 'credential', ...credential }
          : { kind: 'pairing', token: connection.token ?? '' },
      name: this.plan.id,
      capabilities: {
        os: 'linux',
        arch: 'x64',
        provider: 'bwrap',
        maxConcurrency: this.plan.concurrency,
        version: '0.1.0',
      },
      activeLeases: this.#claimed(),
    })
  }

  #hangUp(): void {
    this.#connection?.wire.workerCloses()
    this.#lost()
  }

  #lost(): void {
    const process = this.#process
    this.#connection = undefined
    if (process === undefined) return
    this.#attempts += 1
    const most = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_FIRST * 2 ** (this.#attempts - 1))
    this.#after(most * (0.5 + this.#parts.random.fraction() / 2), () => {
      if (this.#connection === undefined) this.#connect()
    })
  }

  #send(frame: WorkerFrame): void {
    this.#connection?.wire.sendUp(frame)
  }

  #beat(wire: Wire): void {
    const connection = this.#connection
    if (connection?.wire !== wire) return
    if (this.#mono() - connection.heardAt > SILENCE_MS) {
      this.#hangUp()
      return
    }
    this.#send({
      type: 'heartbeat',
      leases: this.#claimed(),
      attachSessions: 0,
      sentAt: this.#mono(),
    })
    this.#after(WORKER_HEARTBEAT_MS, () => this.#beat(wire))
  }

  #claimed() {
    return [...this.#disk.leases.values()].map(({ id, runId, expiresAt, outbox }) => ({
      id,
      runId,
      expiresAt,
      lastSeq: outbox.savedSeq,
    }))
  }

  // ---- what the host says ----------------------------------------------------------------------------------------

  #hear(frame: HostFrame): void {
    const connection = this.#connection
    if (connection === undefined) return
    connection.heardAt = this.#mono()
    switch (frame.type) {
      case 'registered':
        this.#welcomed(connection, frame)
        return
      case 'rejected':
        this.#rejected(connection, frame)
        return
      case 'heartbeat-ack':
        this.#state = frame.state
        return
      case 'worker-state':
        this.#state = frame.state
        return
      case 'dispatch':
        this.#dispatched(connection, frame)
        return
      case 'lease-ack':
        this.#acknowledged(connection, frame)
        return
      case 'run-complete-ack':
        this.#drop(frame.leaseId)
        return
      case 'lease-lost':
        this.#drop(frame.leaseId)
        return
      case 'cancel':
        this.#cancel(frame.leaseId)
        return
      case 'revoked':
        this.#revoked()
        return
    }
  }

  #welcomed(connection: Connection, frame: HostFrameOf<'registered'>): void {
    if (connection.registered) return
    if (frame.credential !== undefined)
      this.#disk.credential = { workerId: frame.workerId, secret: frame.credential }
    this.#token = undefined
    connection.registered = true
    this.#state = frame.state
    this.#attempts = 0
    this.#after(WORKER_HEARTBEAT_MS, () => this.#beat(connection.wire))
  }

  #rejected(connection: Connection, { code }: HostFrameOf<'rejected'>): void {
    if (code === 'unauthorized') this.#forgetCredential()
    if (connection.token !== undefined) this.#token = undefined
  }

  #revoked(): void {
    this.#forgetCredential()
    for (const id of this.claims) this.#drop(id)
    this.#connection?.wire.workerCloses()
    this.crash(false)
    this.#retired = true
  }

  #forgetCredential(): void {
    const { credential } = this.#disk
    if (credential === undefined) return
    this.#parts.watch.deletedCredential(this, credential.workerId)
    this.#disk.credential = undefined
  }

  #dispatched(connection: Connection, { lease, job }: HostFrameOf<'dispatch'>): void {
    const { id, runId } = lease
    if (this.#disk.leases.has(id)) {
      this.#send({ type: 'dispatch-accepted', leaseId: id })
      return
    }
    const refusal = this.#refusal(id)
    if (refusal !== undefined) {
      this.#send({ type: 'dispatch-rejected', leaseId: id, reason: refusal })
      return
    }
    // The newer lease of a run fences the older one off.
    for (const held of [...this.#disk.leases.values()]) if (held.runId === runId) this.#drop(held.id)
    const outbox = new Outbox(id, this.plan.bufferMax)
    this.#disk.leases.set(id, { id, runId, expiresAt: lease.expiresAt, outbox })
    connection.sent.set(id, 0)
    this.#execute(id, runId, lease.remainingMs, job.repo.remote)
    this.#send({ type: 'dispatch-accepted', leaseId: id })
  }

  #refusal(leaseId: string): string | undefined {
    const { random } = this.#parts
    if (this.#disk.over.has(leaseId)) return 'busy: this lease is over'
    if (this.#state === 'draining') return 'draining: the worker is draining'
    if (this.#executions.size >= this.plan.concurrency) return 'busy: no room'
    if (this.#content || !random.random(this.plan.declines)) return undefined
    return random.pick(['sandbox: it does not start', 'disk: 200 MB free', 'busy: for no reason'])
  }

  #acknowledged(connection: Connection, { leases, echo }: HostFrameOf<'lease-ack'>): void {
    const since = echo ?? connection.registerSentAt
    for (const { leaseId, seq, expiresAt, remainingMs } of leases) {
      const lease = this.#disk.leases.get(leaseId)
      if (lease === undefined) continue
      lease.expiresAt = expiresAt
      this.#prolong(leaseId, since + remainingMs * OWN_SHARE)
      if (seq > lease.outbox.acked) {
        lease.outbox.trim(seq)
        this.#parts.watch.trimmed(leaseId, seq)
      }
      const isFirst = !connection.sent.has(leaseId)
      const isRepeated = connection.lastAck.get(leaseId) === seq
      connection.lastAck.set(leaseId, seq)
      if (isFirst || isRepeated) connection.sent.set(leaseId, seq)
      this.#flush(lease)
    }
  }

  // ---- reporting -------------------------------------------------------------------------------------------------

  #report(leaseId: string, make: (seq: number) => NumberedFrame): void {
    const lease = this.#disk.leases.get(leaseId)
    if (lease === undefined) return
    this.#parts.watch.stamped(this, lease.outbox.stamp(make))
    if (this.#saving) return
    this.#saving = true
    this.#after(1 + this.#parts.random.fraction() * 15, () => {
      this.#saving = false
      for (const held of this.#disk.leases.values()) {
        held.outbox.save()
        this.#flush(held)
      }
    })
  }

  #flush({ id, outbox }: Held): void {
    const connection = this.#connection
    const sent = connection?.sent.get(id)
    if (connection === undefined || sent === undefined || !connection.registered) return
    for (const { seq, frame } of outbox.above(sent)) {
      connection.sent.set(id, seq)
      this.#send(frame)
    }
  }

  #drop(leaseId: string): void {
    this.#stop(leaseId)
    this.#disk.over.add(leaseId)
    this.#disk.leases.delete(leaseId)
  }

  /** After a crash of the daemon: what was finished is reported again, what was running is not any more. */
  #pickUp(lease: Held): void {
    if (lease.outbox.completion !== undefined) return
    if (this.plan.afterCrash === 'forgets') this.#drop(lease.id)
    else this.#complete(lease.id, { status: 'failed', error: 'the worker was restarted', costs: [] })
  }

  // ---- executing -------------------------------------------------------------------------------------------------

  #execute(leaseId: string, runId: string, remainingMs: number, remote: string): void {
    const { watch } = this.#parts
    const clock = this.#clock
    const process = this.#process
    if (clock === undefined || process === undefined) return
    const deadline = this.#mono() + remainingMs * OWN_SHARE
    const execution: Running = {
      leaseId,
      runId,
      worker: this.plan.id,
      remote,
      deadline,
      stopAt: clock.trueTimeOf(deadline),
      process,
      steps: [],
      cancelling: false,
    }
    this.#executions.set(leaseId, execution)
    execution.steps.push(...this.#script(execution))
    watch.started(execution)
    this.#guard(execution)
    this.#step(execution)
  }

  #isRunning(execution: Running): boolean {
    return this.#executions.get(execution.leaseId) === execution
  }

  #step(execution: Running): void {
    const step = execution.steps.shift()
    if (step === undefined) return
    this.#after(step.afterMs, () => {
      if (!this.#isRunning(execution) || execution.cancelling) return
      step.act()
      this.#step(execution)
    })
  }

  /** Without word of the host it ends by itself, in time for whoever comes next. */
  #guard(execution: Running): void {
    this.#after(execution.deadline - this.#mono(), () => {
      if (!this.#isRunning(execution)) return
      if (this.#mono() < execution.deadline) this.#guard(execution)
      else {
        this.#parts.watch.said(this, `ends ${execution.leaseId} by itself`)
        this.#drop(execution.leaseId)
      }
    })
  }

  #prolong(leaseId: string, deadline: number): void {
    const execution = this.#executions.get(leaseId)
    if (execution === undefined || this.#clock === undefined || deadline <= execution.deadline) return
    execution.deadline = deadline
    execution.stopAt = this.#clock.trueTimeOf(deadline)
  }

  #stop(leaseId: string): void {
    const execution = this.#executions.get(leaseId)
    if (execution === undefined) return
    this.#executions.delete(leaseId)
    this.#parts.watch.stopped(execution)
  }

  #cancel(leaseId: string): void {
    const execution = this.#executions.get(leaseId)
    if (execution === undefined || execution.cancelling) return
    execution.cancelling = true
    this.#after(this.#parts.random.fraction() * this.plan.cancelMsMax, () => {
      if (!this.#isRunning(execution)) return
      this.#complete(leaseId, { status: 'cancelled', costs: [costOf(leaseId, 1_000)] })
    })
  }

  #complete(leaseId: string, outcome: RunOutcome): void {
    this.#stop(leaseId)
    this.#report(leaseId, (seq) => ({ type: 'run-complete', leaseId, seq, outcome }))
  }

  #script(execution: Running): Step[] {
    const { random } = this.#parts
    const total = 4_000 * (this.plan.runMsMax / 4_000) ** random.fraction()
    const { leaseId } = execution
    const acts: { at: number; act: () => void }[] = []
    const add = (at: number, act: () => void) => void acts.push({ at: at * total, act })
    const anywhere = () => 0.05 + random.fraction() * 0.9
    add(0.03, () => this.#patch(leaseId, { status: 'running' }))
    for (let n = random.below(this.plan.chatter); n > 0; n--) add(anywhere(), () => this.#print(leaseId))
    for (let n = random.below(3); n > 0; n--) add(anywhere(), () => this.#snapshot(leaseId, random.below(3)))
    for (let n = random.below(3); n > 0; n--) this.#addArtifact(add, leaseId, n)
    if (random.random(0.3)) add(anywhere(), () => this.#remember(leaseId, execution.remote))
    if (random.random(0.5)) add(anywhere(), () => this.#patch(leaseId, { costs: [costOf(leaseId, 500)] }))
    const prUrl = random.random(0.5) ? this.#parts.codehost.pullOf(execution.runId) : undefined
    if (prUrl !== undefined) add(0.9, () => this.#patch(leaseId, { prUrl, prState: 'open' }))
    add(0.96, () => this.#patch(leaseId, { status: 'finalizing' }))
    const failed = random.random(0.1)
    const result = { artifacts: [], ...(prUrl === undefined ? {} : { prUrl }) }
    add(1, () =>
      this.#complete(leaseId, {
        status: failed ? 'failed' : 'completed',
        costs: [costOf(leaseId, 1_000)],
        ...(failed ? { error: 'the agent gave up' } : { result }),
        ...(prUrl === undefined ? {} : { prUrl, prState: 'open' }),
      }),
    )
    acts.sort((a, b) => a.at - b.at)
    return acts.map(({ at, act }, index) => ({ afterMs: at - (acts[index - 1]?.at ?? 0), act }))
  }

  #patch(leaseId: string, patch: RunPatch): void {
    this.#report(leaseId, (seq) => ({
      type: 'run-patch',
      leaseId,
      seq,
      patch: { ...patch, agentSessionId: `${leaseId} ${seq}` },
    }))
  }

  #print(leaseId: string): void {
    const at = this.#instant()
    this.#report(leaseId, (seq) => ({
      type: 'run-event',
      leaseId,
      seq,
      event: { type: 'log', at, stream: 'stdout', text: `${leaseId} ${seq}` },
    }))
  }

  #remember(leaseId: string, repo: string): void {
    this.#report(leaseId, (seq) => ({
      type: 'run-memories',
      leaseId,
      seq,
      repo,
      facts: [`fact ${leaseId} ${seq}`],
    }))
  }

  /** 0: of the session itself; else of one of its subagents. */
  #snapshot(leaseId: string, subagent: number): void {
    const at = this.#instant()
    const place = { projectKey: 'project', sessionId: `session-${leaseId}` }
    this.#report(leaseId, (seq) => ({
      type: 'run-usage-snapshot',
      leaseId,
      seq,
      snapshot: {
        ...place,
        ...(subagent === 0 ? {} : { subagentId: `agent-${subagent}` }),
        entries: [entryOf(`${leaseId} ${seq}`, at)],
      },
    }))
  }

  #addArtifact(add: (at: number, act: () => void) => void, leaseId: string, number: number): void {
    const parts = 1 + this.#parts.random.below(3)
    const begin = 0.05 + this.#parts.random.fraction() * 0.8
    for (let part = 0; part < parts; part++) {
      add(begin + part * 0.03, () =>
        this.#report(leaseId, (seq) => ({
          type: 'run-artifact',
          leaseId,
          seq,
          name: `${leaseId}-${number}`,
          part,
          final: part === parts - 1,
          data: Buffer.from(`${leaseId} ${seq};`).toString('base64'),
        })),
      )
    }
  }

  // ---- time ------------------------------------------------------------------------------------------------------

  #mono(): number {
    return this.#clock?.monotonic() ?? 0
  }

  #instant(): string {
    return new Date(this.#clock?.now() ?? 0).toISOString()
  }

  #after(ms: number, run: () => void): void {
    this.#clock?.after(ms, run)
  }
}
