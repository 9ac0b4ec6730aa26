/**
 * A worker daemon on a hand-wound clock, with a disk in memory, hands that a test moves, and a host that is the test:
 * what is said and done is written down as a transcript.
 */

import { createDaemon } from '../../../actors/daemon/create-daemon.ts'
import type { Daemon, DaemonDependencies, DaemonEnd } from '../../../actors/daemon/daemon-dependencies.ts'
import type {
  AgentOutcome,
  ConnectionListener,
  DialledConnection,
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
import type { Clock } from '../../../core/ports.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { newRun } from '../../../core/run/run-transitions.ts'
import type { HostFrame, Job, RunOutcome, UsageSnapshot, WorkerFrame } from '../../../protocol/frames.ts'
import { readWorkerFrame } from '../../../protocol/frames.ts'
import { MemoryControlDatabase } from '../../../store/memory/control-database.ts'
import { aTicket, T0 } from '../../rules/run/runs.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { plainScreen } from '../../support/plain-screen.ts'
import { keptLog, noMeters } from '../../support/recording-log.ts'

export const SECRET = 'codehost-secret-of-the-run'
export const CREDENTIAL: WorkerCredential = { workerId: 'wk-1', secret: 'wc-1' }
const LATER = '2026-01-01T00:03:00.000Z'

export function jobOf(runId: string, more: Partial<Job> = {}): Job {
  return {
    kind: 'run',
    run: newRun(runId, aTicket, T0),
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

// ---- hands ---------------------------------------------------------------------------------------------------------

/** A promise that a test settles. */
export class Later<T> {
  settle: (value: T) => void = () => {}
  readonly promise = new Promise<T>((resolve) => {
    this.settle = resolve
  })
}

export class HandExecution implements Execution {
  readonly order: ExecutionRequest
  readonly reporter: ExecutionReporter
  readonly progressed: (progress: Progress) => void
  readonly prepared = new Later<Result<Progress>>()
  readonly worked = new Later<AgentOutcome>()
  readonly finished = new Later<RunOutcome>()
  readonly went = new Later<void>()
  /** Ends by itself when it is stopped. */
  obedient = true
  readonly #note: (line: string) => void

  constructor(
    order: ExecutionRequest,
    reporter: ExecutionReporter,
    progressed: (progress: Progress) => void,
    note: (line: string) => void,
  ) {
    this.order = order
    this.reporter = reporter
    this.progressed = progressed
    this.#note = note
  }

  prepare() {
    this.#note(`prepare ${this.order.leaseId}`)
    return this.prepared.promise
  }
  runAgent() {
    this.#note(`work ${this.order.leaseId}`)
    return this.worked.promise
  }
  finish(worked: AgentOutcome) {
    this.#note(
      `finish ${this.order.leaseId} (${worked.verdict}${worked.reason === undefined ? '' : `: ${worked.reason}`})`,
    )
    if (worked.verdict === 'stopped' && this.obedient)
      this.finished.settle({ status: 'failed', error: 'stopped', costs: [] })
    return this.finished.promise
  }
  stop({ how, reason }: StopRequest) {
    this.#note(`${how} ${this.order.leaseId} (${reason})`)
    if (!this.obedient) return
    this.prepared.settle(no('failed', 'stopped'))
    this.worked.settle({ verdict: 'stopped' })
    this.finished.settle({ status: 'failed', error: 'stopped', costs: [] })
    this.went.settle()
  }
  whenExited() {
    return this.went.promise
  }
}

/** A booted sandbox with its session, in a test's hand. */
export class HandSandbox implements BootedSandbox {
  readonly order: BootRequest
  ear: TerminalSessionListener | undefined
  usage: readonly UsageSnapshot[] = []
  readonly closed = new Later<void>()
  /** Closes by itself when it is asked to. */
  obedient = true
  readonly #note: (line: string) => void

  constructor(order: BootRequest, note: (line: string) => void) {
    this.order = order
    this.#note = note
  }

  open({ cols, rows }: TerminalSize, ear: TerminalSessionListener): TerminalSession {
    this.ear = ear
    const { runId } = this.order
    this.#note(`session of ${runId} opened, ${cols}x${rows}`)
    return {
      input: (data) => this.#note(`typed ${JSON.stringify(data)}`),
      resize: (size) => this.#note(`resized ${size.cols}x${size.rows}`),
      pause: () => this.#note('paused'),
      resume: () => this.#note('resumed'),
    }
  }
  async close(): Promise<readonly UsageSnapshot[]> {
    this.#note(`close ${this.order.runId}`)
    if (this.obedient) this.closed.settle()
    await this.closed.promise
    return this.usage
  }
}

export class Hands implements Executor {
  readonly executions = new Map<string, HandExecution>()
  objects: string | undefined
  obedient = true
  /** Each time that disk was taken back, those of these runs whose disk was to stay. */
  spared: string[][] = []
  readonly #note: (line: string) => void

  constructor(note: (line: string) => void) {
    this.#note = note
  }

  async refusalOf() {
    return this.objects as Awaited<ReturnType<Executor['refusalOf']>>
  }
  start(order: ExecutionRequest, reporter: ExecutionReporter, progressed: (progress: Progress) => void) {
    const execution = new HandExecution(order, reporter, progressed, this.#note)
    execution.obedient = this.obedient
    this.executions.set(order.leaseId, execution)
    return execution
  }
  /** What is found besides the disk itself. */
  bill: Pick<RecoveredOutputs, 'costs' | 'usage'> = {}

  async recover(runId: string): Promise<RecoveredOutputs> {
    this.#note(`salvage ${runId}`)
    return { ...this.bill, sandbox: { id: `sb-${runId}` } }
  }
  /** By run, the newest. */
  readonly sandboxes = new Map<string, HandSandbox>()
  /** Without it they boot by themselves. */
  boots: Later<Result<void>> | undefined

  async boot(order: BootRequest): Promise<Result<BootedSandbox>> {
    this.#note(`boot ${order.runId}`)
    const answer = await (this.boots?.promise ?? yes(undefined))
    if (!answer.ok) return answer
    const sandbox = new HandSandbox(order, this.#note)
    this.sandboxes.set(order.runId, sandbox)
    return yes(sandbox)
  }
  async discard(runId: string) {
    this.#note(`discard ${runId}`)
  }
  async reclaim(isClaimed: (runId: string) => boolean) {
    this.spared = [...this.spared, ['run-1', 'run-2'].filter(isClaimed)]
  }

  of(leaseId: string): HandExecution {
    const execution = this.executions.get(leaseId)
    if (execution === undefined) throw new Error(`nothing executes ${leaseId}`)
    return execution
  }
}

// ---- one daemon after another on one disk --------------------------------------------------------------------------

class Leash implements Clock {
  alive = true
  readonly #clock: ManualClock

  constructor(clock: ManualClock) {
    this.#clock = clock
  }
  now = () => this.#clock.now()
  monotonic = () => this.#clock.monotonic()
  after = (ms: number, run: () => void) => this.#clock.after(ms, () => this.alive && run())
  endOfTick = (run: () => void) => this.#clock.endOfTick(() => this.alive && run())
}

interface WireInHand {
  readonly number: number
  readonly ear: ConnectionListener
  open: boolean
}

export class Talk {
  readonly clock = new ManualClock()
  readonly log = keptLog()
  readonly disk: MemoryControlDatabase
  readonly ends: DaemonEnd[] = []
  readonly frames: WorkerFrame[] = []
  token: string | undefined
  credential: WorkerCredential | undefined = CREDENTIAL
  backlog = 0
  /** Frames that the worker says on its own are left out. */
  quiet: readonly string[] = ['heartbeat']
  daemon: Daemon
  hands: Hands
  wire: WireInHand | undefined
  #leash: Leash
  #lines: string[] = []
  #wires = 0
  readonly #parts: Partial<DaemonDependencies>

  constructor(parts: Partial<DaemonDependencies> = {}) {
    this.#parts = parts
    this.disk = new MemoryControlDatabase(this.clock)
    this.#leash = new Leash(this.clock)
    this.hands = new Hands((line) => this.note(line))
    this.daemon = this.#build()
  }

  /** What was written down since it was last asked for. */
  transcript(): string[] {
    const complaints = this.log.lines.splice(0).filter(({ level }) => level === 'error')
    return [
      ...this.#lines.splice(0),
      ...complaints.map(({ message, fields }) => `error: ${message} ${JSON.stringify(fields)}`),
    ]
  }

  note(line: string): void {
    this.#lines.push(line)
  }

  // ---- the daemon's life -------------------------------------------------------------------------------------------

  async start(): Promise<void> {
    const started = this.daemon.start()
    if (!started.ok) this.note(`does not start: ${started.refusal.message}`)
    await this.clock.turn()
  }

  /** As after `kill -9`, and started again. */
  async restart(): Promise<void> {
    this.kill()
    this.#leash = new Leash(this.clock)
    const { bill } = this.hands
    this.hands = new Hands((line) => this.note(line))
    this.hands.bill = bill
    this.daemon = this.#build()
    await this.start()
  }

  kill(): void {
    this.#leash.alive = false
    this.wire = undefined
    this.note('the daemon is killed')
  }

  #build(): Daemon {
    const identity: WorkerIdentity = {
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
      clock: this.#leash,
      random: { bytes: (count) => new Uint8Array(count), fraction: () => 0 },
      log: this.log,
      meters: noMeters,
      database: this.disk,
      dialer: { dial: (ear) => this.#dial(ear) },
      identity,
      executor: this.hands,
      makeScreen: plainScreen,
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

  // ---- the line ----------------------------------------------------------------------------------------------------

  #dial(ear: ConnectionListener): DialledConnection {
    const wire: WireInHand = { number: ++this.#wires, ear, open: true }
    this.wire = wire
    const leash = this.#leash
    if (!this.quiet.includes('dial')) this.note('dials')
    return {
      send: (text) => {
        if (leash.alive && wire.open) this.#said(text)
      },
      backlogBytes: () => this.backlog,
      close: () => {
        if (!wire.open) return
        wire.open = false
        if (!this.quiet.includes('dial')) this.note('hangs up')
      },
    }
  }

  #said(text: string): void {
    const read = readWorkerFrame(text, !text.startsWith('{"type":"register"'))
    if (!read.ok) throw new Error(`${read.error}: ${text.slice(0, 200)}`)
    this.frames.push(read.value)
    if (!this.quiet.includes(read.value.type)) this.note(`→ ${wordsFor(read.value)}`)
  }

  async say(frame: HostFrame): Promise<void> {
    if (!this.quiet.includes(frame.type))
      this.note(`← ${frame.type}${'leaseId' in frame ? ` ${frame.leaseId}` : ''}`)
    this.wire?.ear.onText(JSON.stringify(frame))
    await this.clock.turn()
  }

  async open(): Promise<void> {
    this.wire?.ear.onOpen()
    await this.clock.turn()
  }

  async drop(reason = 'the network is gone'): Promise<void> {
    const { wire } = this
    this.wire = undefined
    if (wire !== undefined) wire.open = false
    wire?.ear.onClose(reason)
    await this.clock.turn()
  }

  /** From the dialling to the first acknowledgement. */
  async welcome(acked: Readonly<Record<string, number>> = {}, more: object = {}): Promise<void> {
    await this.open()
    await this.say({
      type: 'registered',
      protocolVersion: 1,
      heartbeatIntervalMs: 15_000,
      hostVersion: '0.1.0',
      workerId: 'wk-1',
      name: 'anvil',
      state: 'active',
      ...more,
    })
    await this.ack(acked)
  }

  async ack(
    acked: Readonly<Record<string, number>>,
    more: { echo?: number; remainingMs?: number } = {},
  ): Promise<void> {
    const { echo, remainingMs = 165_000 } = more
    await this.say({
      type: 'lease-ack',
      leases: Object.entries(acked).map(([leaseId, seq]) => ({
        leaseId,
        seq,
        expiresAt: LATER,
        remainingMs,
      })),
      ...(echo === undefined ? {} : { echo }),
    })
  }

  async dispatch(leaseId: string, runId = leaseId.replace('ls', 'run'), job = jobOf(runId)): Promise<void> {
    await this.say({
      type: 'dispatch',
      lease: { id: leaseId, runId, expiresAt: LATER, remainingMs: 165_000 },
      job,
    })
  }

  // ---- hands -------------------------------------------------------------------------------------------------------

  async prepared(leaseId: string, progress: Progress = {}): Promise<void> {
    this.hands.of(leaseId).prepared.settle(yes(progress))
    await this.clock.turn()
  }

  async worked(leaseId: string, worked: AgentOutcome = { verdict: 'done' }): Promise<void> {
    this.hands.of(leaseId).worked.settle(worked)
    await this.clock.turn()
  }

  async finished(leaseId: string, outcome: RunOutcome = { status: 'completed', costs: [] }): Promise<void> {
    const execution = this.hands.of(leaseId)
    execution.finished.settle(outcome)
    execution.went.settle()
    await this.clock.turn()
  }

  /** Booted, with these views. */
  async boot(runId: string, ...views: string[]): Promise<HandSandbox> {
    await this.wish('rq-1', runId)
    for (const sessionId of views) await this.attach(sessionId, runId)
    return this.sandbox(runId)
  }

  async wish(requestId: string, runId: string): Promise<void> {
    await this.say({ type: 'sandbox-boot', requestId, runId, credentials: { codehost: SECRET } })
  }

  sandbox(runId: string): HandSandbox {
    const sandbox = this.hands.sandboxes.get(runId)
    if (sandbox === undefined) throw new Error(`${runId} is not booted`)
    return sandbox
  }

  async attach(sessionId: string, runId: string, cols = 80, rows = 24): Promise<void> {
    await this.say({ type: 'attach-open', sessionId, runId, cols, rows })
  }

  async shows(runId: string, data: string): Promise<void> {
    this.sandbox(runId).ear?.onOutput(data)
    await this.clock.turn()
  }

  async endSession(runId: string, code: number): Promise<void> {
    this.sandbox(runId).ear?.onExit(code)
    await this.clock.turn()
  }

  async print(leaseId: string, text: string): Promise<void> {
    const event = { type: 'log', at: T0, stream: 'stdout', text } as const
    this.hands.of(leaseId).reporter.report({ is: 'event', event })
    await this.clock.turn()
  }

  /** Everything that the disk holds, as text. */
  spooled(): string {
    const kinds = this.disk.snapshots.kinds().map((kind) => [...this.disk.snapshots.all(kind)])
    return JSON.stringify([
      kinds,
      [...this.disk.keyValues.all('frame')],
      [...this.disk.keyValues.all('outbox')],
    ])
  }
}

function wordsFor(frame: WorkerFrame): string {
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
      return `sandbox-ready ${frame.requestId}`
    case 'sandbox-failed':
      return `sandbox-failed ${frame.requestId} (${frame.message})`
    case 'run-usage-snapshot':
      return `run-usage-snapshot ${frame.leaseId ?? `of ${frame.snapshot.sessionId}`}`
    default:
      return `${frame.type}${'leaseId' in frame ? ` ${frame.leaseId}` : ''}`
  }
}
