/**
 * SpecWorker is a worker as the specification describes it, without agents and sandboxes: an execution is a script
 * of reports.
 *
 * The code follows the specification alone, so that host and worker cannot share a mistake. The state is on a disk
 * that survives crashes. A frame is sent only after it is on that disk, so a number never stands for two frames.
 * Every report carries its lease and number, so the host's disk shows which reports were applied.
 */
import type {
  HostFrame,
  HostFrameOf,
  Job,
  RunOutcome,
  RunPatch,
  WorkerAuth,
  WorkerFrame,
} from '../../protocol/frames.ts'
import {
  LOG_EVENT_BYTES_MAX,
  PROTOCOL_VERSION,
  WORKER_FIRST_FRAME_MS,
  WORKER_HEARTBEAT_MS,
} from '../../protocol/limits.ts'
import type { WorkerState } from '../../protocol/worker.ts'
import type { CommitPoint, WorkerPlan } from './plan.ts'
import { type NumberedFrame, ReferenceOutbox } from './reference-outbox.ts'
import type { SimConnection, SimConnectionListener } from './sim-connection.ts'
import {
  executionCost,
  type ForeignLease,
  foreignLeaseFrames,
  type ObservedExecution,
  type SimWorker,
  type SimWorkerOptions,
  usageEntry,
} from './sim-worker.ts'
import { type Process, SimClock } from './timeline.ts'

const SILENCE_MS = 45_000
const BACKOFF_MS_FIRST = 1_000
const BACKOFF_MS_MAX = 15_000
/** The share of a lease's time that its worker uses. */
const OWN_SHARE = 0.9

interface HeldLease {
  readonly id: string
  readonly runId: string
  expiresAt: string
  readonly outbox: ReferenceOutbox
}

/** The state that survives a crash. */
interface ScriptDisk {
  credential:
    | { readonly workerId: string; readonly secret: string; readonly installation: string | undefined }
    | undefined
  readonly leases: Map<string, HeldLease>
  /** Leases that ended, to refuse repeated dispatches. */
  readonly endedLeases: Set<string>
}

interface RunningExecution extends ObservedExecution {
  stopAt: number
  readonly branch: string
  readonly steps: TimedStep[]
  /** On the worker's own monotonic clock. */
  deadline: number
  isCancelling: boolean
}

interface TimedStep {
  readonly afterMs: number
  readonly act: () => void
}

interface ScriptRegistration {
  readonly connection: SimConnection
  isRegistered: boolean
  registerSentAt: number
  lastFrameAt: number
  /** By lease: the highest number sent on this connection, once the host has acknowledged a position. */
  readonly sentSeq: Map<string, number>
  readonly lastAck: Map<string, number>
  /** Set when the worker enrolls with this connection. */
  readonly token: string | undefined
}

/** Together more than the budget of a run's log in the configuration of the simulation, 1 MiB. */
const FLOOD_EVENTS = 12
const FLOOD_PADDING = 'x'.repeat(100_000)

/** Chooses one execution in sixteen by its lease id, so that the choice uses up no random number. */
const isFlooding = (leaseId: string): boolean => leaseId.endsWith('0')

/** The largest text of one log event, without its last line. */
const LONG_LINE = `${'x'.repeat(LOG_EVENT_BYTES_MAX - 12)}\n`

/** Chooses another one in sixteen. */
const isVerbose = (leaseId: string): boolean => leaseId.endsWith('1')

const authOf = (secret: string): WorkerAuth =>
  secret.startsWith('wj-') ? { kind: 'join', key: secret } : { kind: 'pairing', token: secret }

export class SpecWorker implements SimWorker {
  readonly plan: WorkerPlan
  readonly #options: SimWorkerOptions
  readonly #disk: ScriptDisk = { credential: undefined, leases: new Map(), endedLeases: new Set() }
  #process: Process | undefined
  #clock: SimClock | undefined
  #registration: ScriptRegistration | undefined
  #token: string | undefined
  #isRequestingToken = false
  #attempts = 0
  #state: WorkerState = 'active'
  #isSaving = false
  /** The pull request that the worker falsely reports until a time. */
  #falsePull: { readonly url: string; readonly until: number } | undefined
  /** Set after `revoked`: the worker stays off until a person enrolls it again. */
  #isRevoked = false
  /** Whether the worker declines nothing without need. */
  #acceptsAll = false
  readonly #executions = new Map<string, RunningExecution>()

  constructor(options: SimWorkerOptions) {
    this.plan = options.plan
    this.#options = options
  }

  // ---- SimWorker ---------------------------------------------------------------------------------------------------

  get process(): Process | undefined {
    return this.#process
  }

  isGone = false

  get isOn(): boolean {
    return this.#process !== undefined
  }

  get workerId(): string | undefined {
    return this.#disk.credential?.workerId
  }

  get secret(): string | undefined {
    return this.#disk.credential?.secret
  }

  get connection(): SimConnection | undefined {
    return this.#registration?.connection
  }

  get isRegistered(): boolean {
    return this.#registration?.isRegistered === true
  }

  get isEnding(): boolean {
    return false
  }

  /** A script keeps no sandboxes. */
  get reclaimableRunIds(): readonly string[] {
    return []
  }

  sandboxDueAt(): undefined {}

  get spendings(): readonly [] {
    return []
  }

  countUsageOf(): number {
    return 0
  }

  get claims(): readonly string[] {
    return [...this.#disk.leases.keys()]
  }

  get executions(): readonly ObservedExecution[] {
    return [...this.#executions.values()]
  }

  takeToken(token: string): void {
    if (this.#disk.credential === undefined) this.#token = token
  }

  switchOn(): void {
    if (this.#process !== undefined || this.#isRevoked || this.isGone) return
    const process: Process = {
      name: `${this.plan.id} at ${Math.floor(this.#options.time.now)}`,
      dead: false,
      pausedUntil: 0,
      endOfTickCallbacks: undefined,
    }
    this.#process = process
    this.#clock = new SimClock(this.#options.time, process, this.#options.machine)
    this.#attempts = 0
    this.#state = 'active'
    for (const lease of [...this.#disk.leases.values()]) this.#recoverLease(lease)
    this.#options.time.in(0, () => this.#connect(), process)
  }

  crash(quiet: boolean): void {
    const process = this.#process
    if (process === undefined) return
    process.dead = true
    if (!quiet) this.#registration?.connection.workerCloses()
    else this.#registration?.connection.break(0.5, 1, undefined, undefined)
    this.#process = undefined
    this.#registration = undefined
    this.#isRequestingToken = false
    this.#isSaving = false
    for (const execution of this.#executions.values()) this.#options.observer.onExecutionStopped(execution)
    this.#executions.clear()
    for (const { outbox } of this.#disk.leases.values()) outbox.crash()
  }

  /** A script commits so often that any moment is as good as a commit. */
  crashAtCommit(count: number, _point: CommitPoint, then: () => void): boolean {
    this.#runAfter(count, then)
    return this.isOn
  }

  stop(): boolean {
    return false
  }

  impairDisk(): boolean {
    return false
  }

  /** A script does not count sleeps. */
  sleep(): boolean {
    return false
  }

  connectWithCopiedCredential(): void {
    if (this.#process !== undefined) this.#connect()
  }

  reportFalsePull(url: string, ms: number): boolean {
    this.#falsePull = { url, until: this.#options.time.now + ms }
    for (const { leaseId } of this.#executions.values())
      this.#reportPatch(leaseId, { prUrl: url, prState: 'merged' })
    return true
  }

  #drawPull(execution: RunningExecution): string | undefined {
    const { random, codehost, time } = this.#options
    const opens = random.chance(0.5)
    if (this.#falsePull !== undefined && time.now < this.#falsePull.until) return this.#falsePull.url
    return opens ? codehost.pullOf(execution.runId, execution) : undefined
  }

  reportForeignLeases(foreign: readonly ForeignLease[]): void {
    for (const frame of foreignLeaseFrames(
      foreign,
      this.#claimedLeases(),
      this.#instant(),
      this.#monotonic(),
    ))
      this.#send(frame)
  }

  endFaults(): void {
    this.#acceptsAll = true
  }

  jumpWallClock(ms: number): void {
    this.#options.machine.wallOffset += ms
  }

  enrollAgain(): void {
    this.#isRevoked = false
    this.switchOn()
  }

  remove(): void {
    this.crash(false)
    this.isGone = true
  }

  // ---- connection ------------------------------------------------------------------------------------------------

  #connect(): void {
    const { credential } = this.#disk
    if (credential === undefined && this.#token === undefined) {
      this.#requestToken()
      return
    }
    const process = this.#process
    if (process === undefined) return
    const listener: SimConnectionListener = {
      onOpen: () => this.#isCurrent(connection) && this.#register(),
      onFrame: (frame) => this.#isCurrent(connection) && this.#handleFrame(frame),
      onClose: () => this.#isCurrent(connection) && this.#onDisconnected(),
    }
    const connection: SimConnection = this.#options.dial(process, listener, false)
    this.#registration = {
      connection,
      isRegistered: false,
      registerSentAt: 0,
      lastFrameAt: this.#monotonic(),
      sentSeq: new Map(),
      lastAck: new Map(),
      token: credential === undefined ? this.#token : undefined,
    }
    connection.dial()
    this.#runAfter(2 * WORKER_FIRST_FRAME_MS, () => {
      if (this.#isCurrent(connection) && !this.isRegistered) this.#hangUp()
    })
  }

  #isCurrent(connection: SimConnection): boolean {
    return this.#registration?.connection === connection
  }

  #requestToken(): void {
    if (this.#isRequestingToken) return
    this.#isRequestingToken = true
    const process = this.#process
    this.#options.requestToken((token) => {
      if (process !== this.#process || process === undefined) return
      this.#isRequestingToken = false
      this.#token = token
      this.#connect()
    })
  }

  #register(): void {
    const registration = this.#registration
    if (registration === undefined) return
    const { credential } = this.#disk
    registration.registerSentAt = this.#monotonic()
    this.#send({
      type: 'register',
      protocolVersion: PROTOCOL_VERSION,
      ...(this.plan.isFirstForm === true ? {} : { oldestProtocolVersion: PROTOCOL_VERSION }),
      auth:
        registration.token === undefined && credential !== undefined
          ? { kind: 'credential', workerId: credential.workerId, secret: credential.secret }
          : authOf(registration.token ?? ''),
      name: this.plan.id,
      capabilities: {
        os: 'linux',
        arch: 'x64',
        provider: 'bwrap',
        maxConcurrency: this.plan.concurrency,
        version: '0.1.0',
      },
      activeLeases: this.#claimedLeases(),
    })
  }

  #hangUp(): void {
    this.#registration?.connection.workerCloses()
    this.#onDisconnected()
  }

  #onDisconnected(): void {
    const process = this.#process
    this.#registration = undefined
    if (process === undefined) return
    this.#attempts += 1
    const most = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_FIRST * 2 ** (this.#attempts - 1))
    this.#runAfter(most * (0.5 + this.#options.random.fraction() / 2), () => {
      if (this.#registration === undefined) this.#connect()
    })
  }

  #send(frame: WorkerFrame): void {
    this.#registration?.connection.sendToHost(frame)
  }

  #sendHeartbeat(connection: SimConnection): void {
    const registration = this.#registration
    if (registration?.connection !== connection) return
    if (this.#monotonic() - registration.lastFrameAt > SILENCE_MS) {
      this.#hangUp()
      return
    }
    this.#send({
      type: 'heartbeat',
      leases: this.#claimedLeases(),
      attachSessions: 0,
      sentAt: this.#monotonic(),
    })
    this.#runAfter(WORKER_HEARTBEAT_MS, () => this.#sendHeartbeat(connection))
  }

  #claimedLeases() {
    return [...this.#disk.leases.values()].map(({ id, runId, expiresAt, outbox }) => ({
      id,
      runId,
      expiresAt,
      lastSeq: outbox.savedSeq,
    }))
  }

  // ---- frames from the host --------------------------------------------------------------------------------------

  #handleFrame(frame: HostFrame): void {
    const registration = this.#registration
    if (registration === undefined) return
    registration.lastFrameAt = this.#monotonic()
    switch (frame.type) {
      case 'registered':
        this.#onRegistered(registration, frame)
        return
      case 'rejected':
        this.#onRejected(registration, frame)
        return
      case 'heartbeat-ack':
        this.#state = frame.state
        return
      case 'worker-state':
        this.#state = frame.state
        return
      case 'dispatch':
        this.#onDispatch(registration, frame)
        return
      case 'lease-ack':
        this.#onLeaseAck(registration, frame)
        return
      case 'run-complete-ack':
        this.#endLease(frame.leaseId)
        return
      case 'lease-lost':
        this.#endLease(frame.leaseId)
        return
      case 'cancel':
        this.#cancelExecution(frame.leaseId)
        return
      case 'revoked':
        this.#onRevoked()
        return
    }
  }

  #onRegistered(registration: ScriptRegistration, frame: HostFrameOf<'registered'>): void {
    if (registration.isRegistered) return
    const { installation } = frame
    if (frame.credential !== undefined)
      this.#disk.credential = { workerId: frame.workerId, secret: frame.credential, installation }
    this.#token = undefined
    registration.isRegistered = true
    this.#state = frame.state
    this.#attempts = 0
    this.#runAfter(WORKER_HEARTBEAT_MS, () => this.#sendHeartbeat(registration.connection))
  }

  #onRejected(registration: ScriptRegistration, { code, installation }: HostFrameOf<'rejected'>): void {
    const isOwn = installation === this.#disk.credential?.installation
    if (code === 'unauthorized' && isOwn) this.#forgetCredential()
    if (registration.token !== undefined) this.#token = undefined
  }

  #onRevoked(): void {
    this.#forgetCredential()
    for (const id of this.claims) this.#endLease(id)
    this.#registration?.connection.workerCloses()
    this.crash(false)
    this.#isRevoked = true
  }

  #forgetCredential(): void {
    const { credential } = this.#disk
    if (credential === undefined) return
    this.#options.observer.onCredentialDeleted(this, credential.workerId)
    this.#disk.credential = undefined
  }

  #onDispatch(registration: ScriptRegistration, { lease, job }: HostFrameOf<'dispatch'>): void {
    const { id, runId } = lease
    if (this.#disk.leases.has(id)) {
      this.#send({ type: 'dispatch-accepted', leaseId: id })
      return
    }
    const refusal = this.#refusalOf(id)
    if (refusal !== undefined) {
      this.#send({ type: 'dispatch-rejected', leaseId: id, reason: refusal })
      return
    }
    // The newer lease of a run fences off the older one.
    for (const heldLease of [...this.#disk.leases.values()])
      if (heldLease.runId === runId) this.#endLease(heldLease.id)
    const outbox = new ReferenceOutbox(id, this.plan.bufferMax)
    this.#disk.leases.set(id, { id, runId, expiresAt: lease.expiresAt, outbox })
    registration.sentSeq.set(id, 0)
    this.#startExecution(id, runId, lease.remainingMs, job)
    this.#send({ type: 'dispatch-accepted', leaseId: id })
  }

  #refusalOf(leaseId: string): string | undefined {
    const { random } = this.#options
    if (this.#disk.endedLeases.has(leaseId)) return 'busy: that lease has ended'
    if (this.#state === 'draining') return 'draining: no new runs'
    if (this.#executions.size >= this.plan.concurrency) return 'busy: no room'
    if (this.#acceptsAll || !random.chance(this.plan.declineShare)) return undefined
    return random.pick(['sandbox: it does not start', 'disk: 200 MB free', 'busy: for no reason'])
  }

  #onLeaseAck(registration: ScriptRegistration, { leases, echo }: HostFrameOf<'lease-ack'>): void {
    const since = echo ?? registration.registerSentAt
    for (const { leaseId, seq, expiresAt, remainingMs } of leases) {
      const lease = this.#disk.leases.get(leaseId)
      if (lease === undefined) continue
      lease.expiresAt = expiresAt
      this.#extendDeadline(leaseId, since + remainingMs * OWN_SHARE)
      if (seq > lease.outbox.acknowledgedSeq) {
        lease.outbox.trim(seq)
        this.#options.observer.onOutboxTrimmed(leaseId, seq)
      }
      const isFirst = !registration.sentSeq.has(leaseId)
      const isRepeated = registration.lastAck.get(leaseId) === seq
      registration.lastAck.set(leaseId, seq)
      if (isFirst || isRepeated) registration.sentSeq.set(leaseId, seq)
      this.#sendUnsent(lease)
    }
  }

  // ---- reports ---------------------------------------------------------------------------------------------------

  #report(leaseId: string, make: (seq: number) => NumberedFrame): void {
    const lease = this.#disk.leases.get(leaseId)
    if (lease === undefined) return
    this.#options.observer.onFrameNumbered(this, lease.outbox.append(make))
    if (this.#isSaving) return
    this.#isSaving = true
    this.#runAfter(1 + this.#options.random.fraction() * 15, () => {
      this.#isSaving = false
      for (const heldLease of this.#disk.leases.values()) {
        heldLease.outbox.save()
        this.#sendUnsent(heldLease)
      }
    })
  }

  #sendUnsent({ id, outbox }: HeldLease): void {
    const registration = this.#registration
    const sent = registration?.sentSeq.get(id)
    if (registration === undefined || sent === undefined || !registration.isRegistered) return
    for (const { seq, frame } of outbox.framesAfter(sent)) {
      registration.sentSeq.set(id, seq)
      this.#send(frame)
    }
  }

  #endLease(leaseId: string): void {
    this.#stopExecution(leaseId)
    this.#disk.endedLeases.add(leaseId)
    this.#disk.leases.delete(leaseId)
  }

  /** After a crash, reports finished executions again; running ones have ended. */
  #recoverLease(lease: HeldLease): void {
    if (lease.outbox.completion !== undefined) return
    if (this.plan.afterCrash === 'forgets') this.#endLease(lease.id)
    else this.#complete(lease.id, { status: 'failed', error: 'the worker was restarted', costs: [] })
  }

  // ---- executions ------------------------------------------------------------------------------------------------

  #startExecution(leaseId: string, runId: string, remainingMs: number, job: Job): void {
    const { observer } = this.#options
    const clock = this.#clock
    const process = this.#process
    if (clock === undefined || process === undefined) return
    const deadline = this.#monotonic() + remainingMs * OWN_SHARE
    const execution: RunningExecution = {
      leaseId,
      runId,
      worker: this.plan.id,
      remote: job.repo.remote,
      branch: job.branch,
      deadline,
      stopAt: clock.trueTimeOf(deadline),
      process,
      steps: [],
      isCancelling: false,
    }
    this.#executions.set(leaseId, execution)
    execution.steps.push(...this.#drawSteps(execution))
    observer.onExecutionStarted(execution)
    this.#enforceDeadline(execution)
    this.#runNextStep(execution)
  }

  #isRunning(execution: RunningExecution): boolean {
    return this.#executions.get(execution.leaseId) === execution
  }

  #runNextStep(execution: RunningExecution): void {
    const step = execution.steps.shift()
    if (step === undefined) return
    this.#runAfter(step.afterMs, () => {
      if (!this.#isRunning(execution) || execution.isCancelling) return
      step.act()
      this.#runNextStep(execution)
    })
  }

  /** Ends the execution when the host stays silent, before another worker may start it. */
  #enforceDeadline(execution: RunningExecution): void {
    this.#runAfter(execution.deadline - this.#monotonic(), () => {
      if (!this.#isRunning(execution)) return
      if (this.#monotonic() < execution.deadline) this.#enforceDeadline(execution)
      else {
        this.#options.observer.onLog(this, `ends ${execution.leaseId} by itself`)
        this.#endLease(execution.leaseId)
      }
    })
  }

  #extendDeadline(leaseId: string, deadline: number): void {
    const execution = this.#executions.get(leaseId)
    if (execution === undefined || this.#clock === undefined || deadline <= execution.deadline) return
    execution.deadline = deadline
    execution.stopAt = this.#clock.trueTimeOf(deadline)
  }

  #stopExecution(leaseId: string): void {
    const execution = this.#executions.get(leaseId)
    if (execution === undefined) return
    this.#executions.delete(leaseId)
    this.#options.observer.onExecutionStopped(execution)
  }

  #cancelExecution(leaseId: string): void {
    const execution = this.#executions.get(leaseId)
    if (execution === undefined || execution.isCancelling) return
    execution.isCancelling = true
    this.#runAfter(this.#options.random.fraction() * this.plan.cancelMsMax, () => {
      if (!this.#isRunning(execution)) return
      this.#complete(leaseId, { status: 'cancelled', costs: [executionCost(leaseId, 1_000)] })
    })
  }

  #complete(leaseId: string, outcome: RunOutcome): void {
    this.#stopExecution(leaseId)
    this.#report(leaseId, (seq) => ({ type: 'run-complete', leaseId, seq, outcome }))
  }

  #drawSteps(execution: RunningExecution): TimedStep[] {
    const { random } = this.#options
    const total = 4_000 * (this.plan.runMsMax / 4_000) ** random.fraction()
    const { leaseId } = execution
    const acts: { at: number; act: () => void }[] = []
    const add = (at: number, act: () => void) => void acts.push({ at: at * total, act })
    const anywhere = () => 0.05 + random.fraction() * 0.9
    add(0.03, () => this.#reportPatch(leaseId, { status: 'running' }))
    for (let n = random.below(this.plan.logLinesMax); n > 0; n--)
      add(anywhere(), () => this.#reportLog(leaseId))
    for (let n = random.below(3); n > 0; n--)
      add(anywhere(), () => this.#reportUsage(leaseId, random.below(3)))
    for (let n = random.below(3); n > 0; n--) this.#addArtifact(add, leaseId, n)
    if (isVerbose(leaseId) && this.plan.isFirstForm !== true)
      add(0.4, () => this.#reportLog(leaseId, LONG_LINE))
    if (isFlooding(leaseId)) add(0.5, () => this.#reportFlood(leaseId))
    if (random.chance(0.3)) add(anywhere(), () => this.#reportMemories(leaseId, execution.remote))
    if (random.chance(0.5))
      add(anywhere(), () => this.#reportPatch(leaseId, { costs: [executionCost(leaseId, 500)] }))
    const prUrl = this.#drawPull(execution)
    if (prUrl !== undefined) add(0.9, () => this.#reportPatch(leaseId, { prUrl, prState: 'open' }))
    add(0.96, () => this.#reportPatch(leaseId, { status: 'finalizing' }))
    const failed = random.chance(0.1)
    const result = { artifacts: [], ...(prUrl === undefined ? {} : { prUrl }) }
    add(1, () =>
      this.#complete(leaseId, {
        status: failed ? 'failed' : 'completed',
        costs: [executionCost(leaseId, 1_000)],
        ...(failed ? { error: 'the agent gave up' } : { result }),
        ...(prUrl === undefined ? {} : { prUrl, prState: 'open' }),
      }),
    )
    acts.sort((a, b) => a.at - b.at)
    return acts.map(({ at, act }, index) => ({ afterMs: at - (acts[index - 1]?.at ?? 0), act }))
  }

  #reportPatch(leaseId: string, patch: RunPatch): void {
    this.#report(leaseId, (seq) => ({
      type: 'run-patch',
      leaseId,
      seq,
      patch: { ...patch, agentSessionId: `${leaseId} ${seq}` },
    }))
  }

  /** @param before text in front of the report's id; a worker of another version does not split it */
  #reportLog(leaseId: string, before = ''): void {
    const at = this.#instant()
    this.#report(leaseId, (seq) => ({
      type: 'run-event',
      leaseId,
      seq,
      event: { type: 'log', at, stream: 'stdout', text: `${before}${leaseId} ${seq}` },
    }))
  }

  /** Reports more output than the budget of a run allows, as an old or hostile worker does. */
  #reportFlood(leaseId: string): void {
    const at = this.#instant()
    for (let n = 0; n < FLOOD_EVENTS; n++)
      this.#report(leaseId, (seq) => ({
        type: 'run-event',
        leaseId,
        seq,
        event: {
          type: 'agent',
          at,
          provider: 'agentA',
          message: { report: `${leaseId} ${seq}`, padding: FLOOD_PADDING },
        },
      }))
  }

  #reportMemories(leaseId: string, repo: string): void {
    this.#report(leaseId, (seq) => ({
      type: 'run-memories',
      leaseId,
      seq,
      repo,
      facts: [`fact ${leaseId} ${seq}`],
    }))
  }

  /** @param subagent 0: the session itself; otherwise one of its subagents */
  #reportUsage(leaseId: string, subagent: number): void {
    const at = this.#instant()
    const place = { projectKey: 'project', sessionId: `session-${leaseId}` }
    this.#report(leaseId, (seq) => ({
      type: 'run-usage-snapshot',
      leaseId,
      seq,
      snapshot: {
        ...place,
        ...(subagent === 0 ? {} : { subagentId: `agent-${subagent}` }),
        entries: [usageEntry(`${leaseId} ${seq}`, at)],
      },
    }))
  }

  #addArtifact(add: (at: number, act: () => void) => void, leaseId: string, number: number): void {
    const parts = 1 + this.#options.random.below(3)
    const begin = 0.05 + this.#options.random.fraction() * 0.8
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

  // ---- clock -----------------------------------------------------------------------------------------------------

  #monotonic(): number {
    return this.#clock?.monotonic() ?? 0
  }

  #instant(): string {
    return new Date(this.#clock?.now() ?? 0).toISOString()
  }

  #runAfter(ms: number, run: () => void): void {
    this.#clock?.after(ms, run)
  }
}
