/**
 * A worker daemon on a manual clock, with a disk in memory, an executor and a host that the test controls. All frames and
 * actions are recorded as a transcript.
 */

import { createDaemon } from '../../../actors/daemon/create-daemon.ts'
import type { Daemon, DaemonDependencies, DaemonEnd } from '../../../actors/daemon/daemon-context.ts'
import { HostClock } from '../../../actors/daemon/host-clock.ts'
import type {
  AgentOutcome,
  ConnectionListener,
  DialledConnection,
  EndedExecution,
  Execution,
  ExecutionReporter,
  ExecutionRequest,
  Executor,
  Progress,
  RecoveredOutputs,
  StopRequest,
  WorkerCredential,
  WorkerIdentity,
} from '../../../core/daemon/ports.ts'
import type {
  BootedSandbox,
  BootRequest,
  TerminalSession,
  TerminalSessionListener,
  TerminalSize,
} from '../../../core/daemon/terminal.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { newRun } from '../../../core/run/run-transitions.ts'
import { DEFAULT_SANDBOX_PROVIDER } from '../../../protocol/config.ts'
import type {
  ExpiredSandbox,
  HostFrame,
  Job,
  RunOutcome,
  UsageSnapshot,
  WorkerAuth,
  WorkerFrame,
} from '../../../protocol/frames.ts'
import { checkWorkerFrame, readWorkerFrame } from '../../../protocol/frames.ts'
import { aTicket, T0 } from '../../rules/run/runs.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { MemoryControlDatabase } from '../../support/memory-database.ts'
import { createPlainScreen } from '../../support/plain-screen.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'

export const SECRET = 'codehost-secret-of-the-run'
export const CREDENTIAL: WorkerCredential = { workerId: 'wk-1', secret: 'wc-1' }
const LEASE_EXPIRES_AT = '2026-01-01T00:03:00.000Z'

export function jobOf(runId: string, more: Partial<Job> = {}): Job {
  return {
    kind: 'run',
    run: newRun(runId, aTicket, DEFAULT_SANDBOX_PROVIDER, T0),
    repo: { key: 'main', remote: 'owner/name', defaultBranch: 'main' },
    branch: `switchyard/${runId}`,
    base: 'main',
    agent: { provider: 'agentA', instructions: 'do it', memories: [] },
    credentials: { codehost: SECRET },
    limits: {},
    retentionHours: 24,
    ...more,
  }
}

// ---- executor ------------------------------------------------------------------------------------------------------

/** A promise that a test resolves. */
export class ManualPromise<T> {
  resolve: (value: T) => void = () => {}
  readonly promise = new Promise<T>((resolve) => {
    this.resolve = resolve
  })
}

export class ManualExecution implements Execution {
  readonly request: ExecutionRequest
  readonly reporter: ExecutionReporter
  readonly reportProgress: (progress: Progress) => void
  readonly prepared = new ManualPromise<Result<Progress>>()
  readonly agentEnded = new ManualPromise<AgentOutcome>()
  readonly finished = new ManualPromise<RunOutcome>()
  readonly exited = new ManualPromise<void>()
  /** The execution ends when it is stopped. */
  endsWhenStopped = true
  leavesNothing = false
  readonly #note: (line: string) => void

  constructor(
    order: ExecutionRequest,
    reporter: ExecutionReporter,
    progressed: (progress: Progress) => void,
    note: (line: string) => void,
  ) {
    this.request = order
    this.reporter = reporter
    this.reportProgress = progressed
    this.#note = note
  }

  prepare() {
    this.#note(`prepare ${this.request.leaseId}`)
    return this.prepared.promise
  }
  runAgent() {
    this.#note(`run agent ${this.request.leaseId}`)
    return this.agentEnded.promise
  }
  finish(worked: AgentOutcome) {
    this.#note(
      `finish ${this.request.leaseId} (${worked.verdict}${worked.reason === undefined ? '' : `: ${worked.reason}`})`,
    )
    if (worked.verdict === 'stopped' && this.endsWhenStopped)
      this.finished.resolve({ status: 'failed', error: 'stopped', costs: [] })
    return this.finished.promise
  }
  stop({ how, reason }: StopRequest) {
    this.#note(`${how} ${this.request.leaseId} (${reason})`)
    if (!this.endsWhenStopped) return
    this.prepared.resolve(no('failed', 'stopped'))
    this.agentEnded.resolve({ verdict: 'stopped' })
    this.finished.resolve({ status: 'failed', error: 'stopped', costs: [] })
    this.exited.resolve()
  }
  whenExited() {
    return this.exited.promise
  }
}

/** A booted sandbox with a session that the test controls. */
export class ManualSandbox implements BootedSandbox {
  readonly request: BootRequest
  readonly sessionId = 'session-1'
  listener: TerminalSessionListener | undefined
  usage: readonly UsageSnapshot[] = []
  readonly closed = new ManualPromise<void>()
  /** The sandbox closes when it is asked to. */
  closesWhenAsked = true
  readonly #note: (line: string) => void

  constructor(order: BootRequest, note: (line: string) => void) {
    this.request = order
    this.#note = note
  }

  open({ cols, rows }: TerminalSize, listener: TerminalSessionListener): TerminalSession {
    this.listener = listener
    const { runId } = this.request
    this.#note(`session of ${runId} opened, ${cols}x${rows}`)
    return {
      input: (data) => this.#note(`typed ${JSON.stringify(data)}`),
      resize: (size) => this.#note(`resized ${size.cols}x${size.rows}`),
      pause: () => this.#note('paused'),
      resume: () => this.#note('resumed'),
    }
  }
  async close(): Promise<readonly UsageSnapshot[]> {
    this.#note(`close ${this.request.runId}`)
    if (this.closesWhenAsked) this.closed.resolve()
    await this.closed.promise
    return this.usage
  }
}

export class ManualExecutor implements Executor {
  readonly executions = new Map<string, ManualExecution>()
  refusal: string | undefined
  endsWhenStopped = true
  /** What needs the host's word. */
  expired: readonly ExpiredSandbox[] = []
  /** For each reclaim, the runs whose disk was protected. */
  protectedRuns: string[][] = []
  readonly #note: (line: string) => void

  constructor(note: (line: string) => void) {
    this.#note = note
  }

  async refusalOf(..._: Parameters<Executor['refusalOf']>) {
    return this.refusal as Awaited<ReturnType<Executor['refusalOf']>>
  }
  start(order: ExecutionRequest, reporter: ExecutionReporter, progressed: (progress: Progress) => void) {
    const execution = new ManualExecution(order, reporter, progressed, this.#note)
    execution.endsWhenStopped = this.endsWhenStopped
    this.executions.set(order.leaseId, execution)
    return execution
  }
  /** The costs and usage that `recover` returns. */
  recoveredCosts: Pick<RecoveredOutputs, 'costs' | 'usage'> = {}

  /** For how many hours the recovered sandboxes are retained. */
  readonly recoveredHours: number[] = []

  /** Holds back recovered outputs; undefined: they are found at once. */
  pendingRecovery: ManualPromise<void> | undefined

  readonly recovered: EndedExecution[] = []

  async recover(ended: EndedExecution, _: Progress, hours: number): Promise<RecoveredOutputs> {
    const { runId } = ended
    this.#note(`recover ${runId}`)
    this.recovered.push(ended)
    this.recoveredHours.push(hours)
    await this.pendingRecovery?.promise
    return { ...this.recoveredCosts, sandbox: { id: `sb-${runId}` } }
  }
  /** By run id, the newest sandbox. */
  readonly sandboxes = new Map<string, ManualSandbox>()
  /** Holds back boots; undefined: they succeed at once. */
  pendingBoot: ManualPromise<Result<void>> | undefined

  async boot(order: BootRequest): Promise<Result<BootedSandbox>> {
    this.#note(`boot ${order.runId}`)
    const answer = await (this.pendingBoot?.promise ?? yes(undefined))
    if (!answer.ok) return answer
    const sandbox = new ManualSandbox(order, this.#note)
    this.sandboxes.set(order.runId, sandbox)
    return yes(sandbox)
  }
  async discard(runId: string) {
    this.#note(`discard ${runId}`)
  }
  async reclaim(isClaimed: (runId: string) => boolean) {
    this.protectedRuns = [...this.protectedRuns, ['run-1', 'run-2'].filter(isClaimed)]
    return this.expired
  }

  execution(leaseId: string): ManualExecution {
    const execution = this.executions.get(leaseId)
    if (execution === undefined) throw new Error(`nothing executes ${leaseId}`)
    return execution
  }
}

// ---- one daemon after another on one disk --------------------------------------------------------------------------

class ProcessClock implements Clock {
  isAlive = true
  readonly #clock: ManualClock

  constructor(clock: ManualClock) {
    this.#clock = clock
  }
  now = () => this.#clock.now()
  monotonic = () => this.#clock.monotonic()
  after = (ms: number, run: () => void) => this.#clock.after(ms, () => this.isAlive && run())
  endOfTick = (run: () => void) => this.#clock.endOfTick(() => this.isAlive && run())
}

interface ManualConnection {
  readonly number: number
  readonly proof: WorkerAuth
  readonly listener: ConnectionListener
  isOpen: boolean
}

export class DaemonConversation {
  readonly clock = new ManualClock()
  readonly log = createRecordingLog()
  readonly disk: MemoryControlDatabase
  readonly hostClock: HostClock
  readonly ends: DaemonEnd[] = []
  readonly frames: WorkerFrame[] = []
  token: string | undefined
  joinKey: string | undefined
  credential: WorkerCredential | undefined = CREDENTIAL
  backlog = 0
  /** Types of entries that are left out of the transcript. */
  hiddenFrames: readonly string[] = ['heartbeat']
  answersLastHeartbeat = true
  daemon: Daemon
  executor: ManualExecutor
  connection: ManualConnection | undefined
  #clock: ProcessClock
  #transcript: string[] = []
  #connectionCount = 0
  readonly #parts: Partial<DaemonDependencies>

  constructor(parts: Partial<DaemonDependencies> = {}) {
    this.#parts = parts
    this.disk = new MemoryControlDatabase(this.clock)
    this.#clock = new ProcessClock(this.clock)
    this.executor = new ManualExecutor((line) => this.note(line))
    this.hostClock = new HostClock({ clock: this.clock, log: this.log })
    this.daemon = this.#build()
  }

  /** The transcript since the last call. */
  transcript(): string[] {
    const complaints = this.log.lines.splice(0).filter(({ level }) => level === 'error')
    return [
      ...this.#transcript.splice(0),
      ...complaints.map(({ message, fields }) => `error: ${message} ${JSON.stringify(fields)}`),
    ]
  }

  note(line: string): void {
    this.#transcript.push(line)
  }

  // ---- starting and killing ----------------------------------------------------------------------------------------

  async start(): Promise<void> {
    const started = this.daemon.start()
    if (!started.ok) this.note(`does not start: ${started.refusal.message}`)
    await this.clock.settle()
  }

  /** Kills the daemon like `kill -9`, and starts another on the same disk. */
  async restart(): Promise<void> {
    this.kill()
    this.#clock = new ProcessClock(this.clock)
    const { recoveredCosts: bill, pendingRecovery } = this.executor
    this.executor = new ManualExecutor((line) => this.note(line))
    this.executor.recoveredCosts = bill
    this.executor.pendingRecovery = pendingRecovery
    this.daemon = this.#build()
    await this.start()
  }

  kill(): void {
    this.#clock.isAlive = false
    this.connection = undefined
    this.note('the daemon is killed')
  }

  #build(): Daemon {
    const joinKey = () => this.joinKey
    const identity: WorkerIdentity = {
      get joinKey() {
        return joinKey()
      },
      credential: () => this.credential,
      pairingToken: () => this.token,
      saveCredential: async (credential) => {
        this.credential = credential
        this.token = undefined
        this.note('keeps the credential')
      },
      deletePairingToken: async () => {
        this.token = undefined
        this.note('drops the token')
      },
      deleteCredential: async () => {
        this.credential = undefined
        this.note('drops the credential')
      },
    }
    return createDaemon({
      clock: this.#clock,
      random: { bytes: (count) => new Uint8Array(count), fraction: () => 0 },
      log: this.log,
      meters: noMeters,
      database: this.disk,
      dialer: { dial: (listener, proof) => this.#dial(listener, proof) },
      identity,
      executor: this.executor,
      hostClock: this.hostClock,
      makeScreen: createPlainScreen,
      capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap' },
      name: 'anvil',
      concurrency: 2,
      version: '0.1.0',
      onEnd: (end) => {
        this.ends.push(end)
        this.note(`ends: ${end.is} (${end.detail})`)
      },
      ...this.#parts,
    })
  }

  // ---- connection --------------------------------------------------------------------------------------------------

  #dial(listener: ConnectionListener, proof: WorkerAuth): DialledConnection {
    const connection: ManualConnection = { number: ++this.#connectionCount, listener, proof, isOpen: true }
    this.connection = connection
    const clock = this.#clock
    if (!this.hiddenFrames.includes('dial')) this.note('dials')
    return {
      send: (text) => {
        if (clock.isAlive && connection.isOpen) this.#onWorkerText(text)
      },
      backlogBytes: () => this.backlog,
      close: () => {
        if (!connection.isOpen) return
        connection.isOpen = false
        if (!this.hiddenFrames.includes('dial')) this.note('hangs up')
      },
    }
  }

  #onWorkerText(text: string): void {
    const read = readWorkerFrame(text, !text.startsWith('{"type":"register"'))
    if (!read.ok) throw new Error(`${read.error}: ${text.slice(0, 200)}`)
    // Writing is closed: a key that no schema knows must not be sent.
    const written = checkWorkerFrame(JSON.parse(text))
    if (!written.ok) throw new Error(`${written.error}: ${text.slice(0, 200)}`)
    this.frames.push(read.value)
    if (!this.hiddenFrames.includes(read.value.type)) this.note(`→ ${describeFrame(read.value)}`)
    if (read.value.type === 'heartbeat' && this.answersLastHeartbeat) this.#answerLastHeartbeat(read.value)
  }

  /** A worker that ends waits for this answer. */
  #answerLastHeartbeat({ sentAt, capabilities }: Extract<WorkerFrame, { type: 'heartbeat' }>): void {
    if (capabilities?.ending !== true) return
    const answer: HostFrame = { type: 'heartbeat-ack', state: 'active', echo: sentAt }
    const { connection } = this
    queueMicrotask(() => connection?.listener.onText(JSON.stringify(answer)))
  }

  async hostSends(frame: HostFrame): Promise<void> {
    if (!this.hiddenFrames.includes(frame.type))
      this.note(`← ${frame.type}${'leaseId' in frame ? ` ${frame.leaseId}` : ''}`)
    this.connection?.listener.onText(JSON.stringify(frame))
    await this.clock.settle()
  }

  async openConnection(): Promise<void> {
    this.connection?.listener.onOpen()
    await this.clock.settle()
  }

  async loseConnection(reason = 'the network is gone'): Promise<void> {
    const { connection } = this
    this.connection = undefined
    if (connection !== undefined) connection.isOpen = false
    connection?.listener.onClose(reason)
    await this.clock.settle()
  }

  /** Opens the connection, registers the worker, and sends the first acknowledgement. */
  async register(acked: Readonly<Record<string, number>> = {}, more: object = {}): Promise<void> {
    await this.openConnection()
    await this.hostSends({
      type: 'registered',
      protocolVersion: 1,
      heartbeatIntervalMs: 15_000,
      hostVersion: '0.1.0',
      workerId: 'wk-1',
      name: 'anvil',
      state: 'active',
      ...more,
    })
    await this.acknowledge(acked)
  }

  async acknowledge(
    acked: Readonly<Record<string, number>>,
    more: { echo?: number; remainingMs?: number } = {},
  ): Promise<void> {
    const { echo, remainingMs = 165_000 } = more
    await this.hostSends({
      type: 'lease-ack',
      leases: Object.entries(acked).map(([leaseId, seq]) => ({
        leaseId,
        seq,
        expiresAt: LEASE_EXPIRES_AT,
        remainingMs,
      })),
      ...(echo === undefined ? {} : { echo }),
    })
  }

  async dispatch(leaseId: string, runId = leaseId.replace('ls', 'run'), job = jobOf(runId)): Promise<void> {
    await this.hostSends({
      type: 'dispatch',
      lease: { id: leaseId, runId, expiresAt: LEASE_EXPIRES_AT, remainingMs: 165_000 },
      job,
    })
  }

  // ---- executor ----------------------------------------------------------------------------------------------------

  async endPreparation(leaseId: string, progress: Progress = {}): Promise<void> {
    this.executor.execution(leaseId).prepared.resolve(yes(progress))
    await this.clock.settle()
  }

  async endAgent(leaseId: string, worked: AgentOutcome = { verdict: 'done' }): Promise<void> {
    this.executor.execution(leaseId).agentEnded.resolve(worked)
    await this.clock.settle()
  }

  async endFinish(leaseId: string, outcome: RunOutcome = { status: 'completed', costs: [] }): Promise<void> {
    const execution = this.executor.execution(leaseId)
    execution.finished.resolve(outcome)
    execution.exited.resolve()
    await this.clock.settle()
  }

  /** Boots the sandbox and opens views. */
  async boot(runId: string, ...views: string[]): Promise<ManualSandbox> {
    await this.requestBoot('rq-1', runId)
    for (const sessionId of views) await this.openView(sessionId, runId)
    return this.sandbox(runId)
  }

  async requestBoot(requestId: string, runId: string): Promise<void> {
    await this.hostSends({ type: 'sandbox-boot', requestId, runId, credentials: { codehost: SECRET } })
  }

  sandbox(runId: string): ManualSandbox {
    const sandbox = this.executor.sandboxes.get(runId)
    if (sandbox === undefined) throw new Error(`${runId} is not booted`)
    return sandbox
  }

  async openView(sessionId: string, runId: string, cols = 80, rows = 24): Promise<void> {
    await this.hostSends({ type: 'attach-open', sessionId, runId, cols, rows })
  }

  async printOnTerminal(runId: string, data: string): Promise<void> {
    this.sandbox(runId).listener?.onOutput(data)
    await this.clock.settle()
  }

  async endSession(runId: string, code: number): Promise<void> {
    this.sandbox(runId).listener?.onExit(code)
    await this.clock.settle()
  }

  async printLog(leaseId: string, text: string): Promise<void> {
    const event = { type: 'log', at: T0, stream: 'stdout', text } as const
    this.executor.execution(leaseId).reporter.report({ is: 'event', event })
    await this.clock.settle()
  }

  /** The whole content of the disk, as text. */
  storedText(): string {
    const kinds = this.disk.snapshots.kinds().map((kind) => [...this.disk.snapshots.all(kind)])
    return JSON.stringify([
      kinds,
      [...this.disk.keyValues.all('frame')],
      [...this.disk.keyValues.all('outbox')],
    ])
  }
}

function describeFrame(frame: WorkerFrame): string {
  switch (frame.type) {
    case 'register':
      return `register (${frame.auth.kind})${frame.activeLeases.map(({ id, lastSeq }) => ` ${id}:${lastSeq}`).join('')}`
    case 'heartbeat':
      return `heartbeat${frame.leases.map(({ id, lastSeq }) => ` ${id}:${lastSeq}`).join('')}`
    case 'dispatch-rejected':
      return `dispatch-rejected ${frame.leaseId} (${frame.reason})`
    case 'run-patch':
      return `run-patch #${frame.seq} ${JSON.stringify(frame.patch)}`
    case 'run-complete':
      return `run-complete ${frame.leaseId} #${frame.seq} ${JSON.stringify(frame.outcome)}`
    case 'lease-gap':
      return `lease-gap ${frame.from}–${frame.to}`
    case 'run-event':
      return `run-event #${frame.seq}${frame.event.type === 'log' ? ` ${frame.event.text}` : ''}`
    case 'attach-data':
      return `attach-data ${frame.sessionId} ${frame.data.length > 80 ? `(${frame.data.length})` : frame.data}`
    case 'attach-exit':
      return `attach-exit ${frame.sessionId} ${frame.code}`
    case 'attach-taken':
      return `attach-taken ${frame.sessionId} ${frame.inputs}`
    case 'attach-error':
      return `attach-error ${frame.sessionId} (${frame.message})`
    case 'sandbox-ready':
      return `sandbox-ready ${frame.requestId} (${frame.sessionId})`
    case 'sandbox-failed':
      return `sandbox-failed ${frame.requestId} (${frame.message})`
    case 'run-usage-snapshot':
      return `run-usage-snapshot ${frame.leaseId ?? `of ${frame.snapshot.sessionId}`}`
    default:
      return `${frame.type}${'leaseId' in frame ? ` ${frame.leaseId}` : ''}`
  }
}
