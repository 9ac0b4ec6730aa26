/**
 * HostConversation runs a host in memory with scripted workers and records their frames as a transcript.
 *
 * Transcripts name leases by their tickets (`ENG-1`, and `ENG-1 (2)` for the second lease of the same ticket). A broken
 * invariant or an error in the host's log also appears in the transcript, so that the test fails. With TALK=sockets in
 * the environment the workers connect to the production listeners of the same host through real sockets.
 */
import type { HostApi } from '../../actors/api/host-api.ts'
import type { HostDependencies } from '../../actors/root/create-host.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { WorkerSender } from '../../core/ports/connections.ts'
import type { Meters } from '../../core/ports/log.ts'
import type { LocalWorkerLauncher } from '../../core/ports/machines.ts'
import type { ControlDatabase, EventQuery, StoreState, Write } from '../../core/ports/store.ts'
import type {
  NewTicket,
  PullLink,
  TicketComment,
  TrackedTicket,
  Tracker,
  TrackerListing,
} from '../../core/ports/tracker.ts'
import { type Result, yes } from '../../core/result.ts'
import type { DashboardPush } from '../../protocol/dashboard.ts'
import {
  checkHostFrame,
  type HostFrame,
  type HostFrameOf,
  type HostFrameType,
  type Job,
  type RunLease,
  type RunOutcome,
  type RunPatch,
  type WorkerFrame,
} from '../../protocol/frames.ts'
import { WORKER_HEARTBEAT_MS } from '../../protocol/limits.ts'
import type { Run, RunEvent, Ticket } from '../../protocol/run.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import { readPush } from '../support/dashboard-pushes.ts'
import { collectEvents } from '../support/event-batches.ts'
import { createInMemoryHost } from '../support/host-in-memory.ts'
import { ManualClock } from '../support/manual-clock.ts'
import type { MemoryControlDatabase } from '../support/memory-database.ts'
import { createMemoryStore, type MemoryStore } from '../support/memory-store.ts'
import { Random } from '../support/random.ts'
import { createRecordingLog, type RecordingLog } from '../support/recording-log.ts'
import { testIf } from '../support/skips.ts'
import type {
  ScriptedConnectionListener,
  ScriptedConnectionSender,
  SocketTransport,
} from './socket-conversation.ts'

/** Imported only for TALK=sockets, because the module loads the native socket listener. */
const sockets = process.env.TALK === 'sockets' ? await import('./socket-conversation.ts') : undefined

/** A test that only works with connections in memory; with sockets it is skipped, for the reason given. */
export const inMemoryOnly = (reason: string) => testIf(sockets === undefined, reason)

export const capabilities = {
  os: 'linux',
  arch: 'x64',
  provider: 'bwrap',
  maxConcurrency: 2,
  version: '0.1.0',
} as const

const configured = {
  tracker: { driver: 'local', path: '/nowhere' },
  repos: { main: { remote: 'owner/name' } },
}

export const config = JSON.stringify(configured)

/** The usual configuration with some sections replaced. */
export const configWith = (more: object): string => JSON.stringify({ ...configured, ...more })

export function ticket(identifier: string, more: Partial<Ticket> = {}): Ticket {
  return {
    id: identifier,
    identifier,
    title: `title of ${identifier}`,
    description: '',
    url: '',
    state: 'Todo',
    priority: 0,
    labels: [],
    blockedBy: [],
    createdAt: '2025-12-01T00:00:00.000Z',
    updatedAt: '2025-12-01T00:00:00.000Z',
    ...more,
  }
}

/** A tracker whose tickets and answers the test sets. */
export class ScriptedTracker implements Tracker {
  tickets = new Map<string, TrackedTicket>()
  /** Answered instead of the tickets, when set. */
  answer: Result<TrackerListing> | undefined
  polls = 0
  created = 0
  /** A ticket is created only after this promise, and the host hears of it only after the other. */
  creationGate: Promise<void> = Promise.resolve()
  answerGate: Promise<void> = Promise.resolve()
  /** A listing is answered only after this promise, with the tickets of the moment of the request. */
  listingGate: Promise<void> = Promise.resolve()
  #changed: () => void = () => {}

  async listTickets() {
    this.polls += 1
    const answer = this.answer ?? yes({ tickets: [...this.tickets.values()], problems: [] })
    await this.listingGate
    return answer
  }
  watch(changed: () => void) {
    this.#changed = changed
    return () => {
      this.#changed = () => {}
    }
  }
  async moveTicket(_ticketId: string, _state: string, _from?: readonly string[]): Promise<Result<void>> {
    return yes(undefined)
  }
  /** Tickets are numbered from ENG-101; the scripted state is `Todo` or `Backlog`. */
  async createTicket({ title, isEligible, labels, repo }: NewTicket): Promise<Result<TrackedTicket>> {
    await this.creationGate
    const made = ticket(`ENG-${101 + this.created++}`, {
      title,
      state: isEligible ? 'Todo' : 'Backlog',
      labels: [...labels],
      ...(repo === undefined ? {} : { repo: repo.key }),
    })
    this.tickets.set(made.id, { ticket: made, closed: false })
    await this.answerGate
    return yes({ ticket: made, closed: false })
  }
  async linkPull(_ticketId: string, _link: PullLink): Promise<Result<void>> {
    return yes(undefined)
  }
  /** Texts of comments, each with its ticket. */
  readonly comments: string[] = []
  async comment(ticketId: string, { text }: TicketComment): Promise<Result<void>> {
    this.comments.push(`${ticketId}: ${text}`)
    return yes(undefined)
  }
  async projects() {
    return yes([])
  }
  /** Adds tickets and announces one change, so the host sees them all in one poll. */
  put(...tickets: readonly Ticket[]): void {
    for (const ticket of tickets) this.tickets.set(ticket.id, { ticket, closed: false })
    this.#changed()
  }
  close(ticket: Ticket): void {
    this.tickets.set(ticket.id, { ticket, closed: true })
    this.#changed()
  }
  announceChange(): void {
    this.#changed()
  }
}

// ---- one host after another on one disk --------------------------------------------------------------------------

/** The clock of one host. After the host is killed, its timers no longer run, as after `kill -9`. */
class KillableClock implements Clock {
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

/**
 * The database of one host. A requested commit is written one tick later, or when a full disk has space again. When
 * the host is killed, pending commits are lost.
 */
class KillableDatabase implements ControlDatabase {
  isAlive = true
  readonly damage
  readonly snapshots
  readonly runs
  readonly keyValues
  readonly #database: MemoryControlDatabase
  readonly #clock: Clock
  #pendingCommits: (() => void)[] = []
  /** Called with each requested commit, before it is written. */
  onCommitRequested: (writes: readonly Write[]) => void = () => {}

  constructor(database: MemoryControlDatabase, clock: Clock) {
    this.#database = database
    this.#clock = clock
    this.damage = database.damage
    this.snapshots = database.snapshots
    this.runs = database.runs
    this.keyValues = database.keyValues
  }

  commit(writes: readonly Write[]): Promise<void> {
    const committed = new Promise<void>((resolve, reject) => {
      this.#pendingCommits.push(() => void this.#database.commit(writes).then(resolve, reject))
    })
    this.#clock.endOfTick(() => this.flush())
    this.onCommitRequested(writes)
    return committed
  }

  flush(): void {
    if (this.isAlive && this.state().is === 'ready') for (const go of this.#pendingCommits.splice(0)) go()
  }

  state = () => this.#database.state()
  onState = (listener: (state: StoreState) => void) =>
    this.#database.onState((state) => {
      if (this.isAlive) listener(state)
    })
  backup = () => this.#database.backup()
}

type BuiltConversationHost = ReturnType<typeof createInMemoryHost>

/** A manual clock whose turns also deliver everything that is under way through sockets. */
class ConversationClock extends ManualClock {
  wrapTick: ((runTick: () => Promise<void>) => Promise<void>) | undefined

  override settle(): Promise<void> {
    return this.wrapTick === undefined ? super.settle() : this.wrapTick(() => super.settle())
  }
}

export class HostConversation {
  readonly clock = new ConversationClock()
  /** Read at each start. */
  localWorker: LocalWorkerLauncher | undefined
  readonly tracker = new ScriptedTracker()
  readonly log: RecordingLog
  readonly store: MemoryStore
  transcript: string[] = []
  readonly counters = new Map<string, number>()
  /** Dependencies of the host that replace the scripted tracker and the absent providers. */
  overrides: Partial<HostDependencies> = {}
  readonly #random = new Random(7)
  readonly #config: string
  readonly #leases = new Map<string, string>()
  readonly #runs = new Map<string, string>()
  readonly #times = new Map<string, number>()
  #hostApi: HostApi | undefined
  #built: BuiltConversationHost | undefined
  #hostClock: KillableClock | undefined
  #hostDatabase: KillableDatabase | undefined
  #isMuted = false
  #socketTransport: SocketTransport | undefined
  #lastTick: Promise<void> = Promise.resolve()

  constructor(configText: string) {
    if (sockets !== undefined) this.clock.wrapTick = (runTick) => this.#queueTick(runTick)
    this.#config = configText
    this.store = createMemoryStore({ clock: this.clock, config: configText })
    const log = createRecordingLog()
    this.log = { ...log, error: (fields, message) => this.write(`!! ${message} ${JSON.stringify(fields)}`) }
  }

  /** The value of a counter or a gauge, by its name and its labels, such as `frames_total heartbeat`. */
  countOf(counter: string): number {
    this.hostApi.updateGauges()
    return this.counters.get(counter) ?? 0
  }

  get hostApi(): HostApi {
    if (this.#hostApi === undefined) throw new Error('the host has not opened its listeners')
    return this.#hostApi
  }

  async start(): Promise<void> {
    this.#hostApi = undefined
    const hostClock = new KillableClock(this.clock)
    const meters: Meters = {
      count: (name, labels, by = 1) => {
        const counter = `${name} ${Object.values(labels ?? {}).join(' ')}`.trim()
        this.counters.set(counter, (this.counters.get(counter) ?? 0) + by)
        if (name === 'invariant_violations_total') this.write(`!! broken: ${labels?.law}`)
      },
      gauge: (name, value, labels) =>
        void this.counters.set(`${name} ${Object.values(labels ?? {}).join(' ')}`.trim(), value),
      observe: () => {},
    }
    const hostDatabase = new KillableDatabase(this.store.database, this.clock)
    this.#hostClock = hostClock
    this.#hostDatabase = hostDatabase
    this.#built = createInMemoryHost((await this.store.config.read()) ?? this.#config, {
      clock: hostClock,
      store: { ...this.store, database: hostDatabase },
      log: this.log,
      meters,
      tracker: () => this.tracker,
      ...(this.localWorker === undefined ? {} : { localWorker: this.localWorker }),
      random: {
        bytes: (count) => Uint8Array.from({ length: count }, () => this.#random.below(256)),
        fraction: () => this.#random.fraction(),
      },
      openListeners: async (hostApi) => {
        this.#hostApi = hostApi
        if (sockets === undefined) return yes({ close: async () => {} })
        const transport = await sockets.SocketTransport.open(hostApi, this.log)
        this.#socketTransport = transport
        return yes({ close: () => transport.close('the service is stopping') })
      },
      ...this.overrides,
    })
    this.#built.host.start()
    await this.settle()
  }

  census(): Readonly<Record<string, number>> {
    return this.#built?.host.countInMemory() ?? {}
  }

  /** Stops the host in order without letting time pass, and starts another one on the same disk. */
  async restart(): Promise<void> {
    this.write('the host stops and starts again')
    this.#built?.host.stop('a test wants it')
    await this.settle()
    this.#kill()
    await this.#socketTransport?.kill()
    await this.start()
  }

  /** Kills the host and starts another one on the same disk; everything that was not on disk is lost. */
  async crash(): Promise<void> {
    this.write('the host is killed and starts again')
    this.#kill()
    await this.#socketTransport?.kill()
    await this.settle()
    await this.start()
  }

  #kill(): void {
    if (this.#hostClock !== undefined) this.#hostClock.isAlive = false
    if (this.#hostDatabase !== undefined) this.#hostDatabase.isAlive = false
  }

  settle(): Promise<void> {
    return this.clock.settle()
  }

  /** Runs turns one after the other, so that frames of one connection do not overtake those of another. */
  #queueTick(runTick: () => Promise<void>): Promise<void> {
    this.#lastTick = this.#lastTick.then(() => this.#socketTransport?.settle(runTick) ?? runTick())
    return this.#lastTick
  }

  async advance(seconds: number): Promise<void> {
    this.write(`${seconds} s pass`)
    await this.clock.advance(seconds * 1000)
  }

  write(line: string): void {
    if (!this.#isMuted) this.transcript.push(line)
  }

  /** Clears the transcript, so that only the following frames are compared. */
  clearTranscript(): void {
    this.transcript = []
  }

  async withoutTranscript<T>(action: () => Promise<T>): Promise<T> {
    this.#isMuted = true
    const done = await action()
    this.#isMuted = false
    return done
  }

  /** Lets time pass while these workers send their heartbeats. */
  async advanceWithHeartbeats(
    seconds: number,
    ...beats: (readonly [ScriptedConnection, ...Work[]])[]
  ): Promise<void> {
    this.write(`${seconds} s of heartbeats`)
    const until = this.clock.monotonic() + seconds * 1000
    await this.withoutTranscript(async () => {
      for (;;) {
        for (const [connection, ...works] of beats) await connection.sendHeartbeat(...works)
        const left = until - this.clock.monotonic()
        if (left <= 0) return
        await this.clock.advance(Math.min(left, WORKER_HEARTBEAT_MS))
      }
    })
  }

  fillDisk(): void {
    this.write('the disk is full')
    this.store.database.fill()
  }

  async freeDisk(): Promise<void> {
    this.write('the disk has room again')
    this.store.database.drain()
    this.#hostDatabase?.flush()
    await this.settle()
  }

  /** Runs an action once, after a commit with a snapshot of this kind was requested and before it is on disk. */
  beforeCommit(kind: string, action: () => void): void {
    const hostDatabase = this.#hostDatabase
    if (hostDatabase === undefined) return
    hostDatabase.onCommitRequested = (writes) => {
      if (!writes.some((write) => write.table === 'snapshot' && write.kind === kind)) return
      hostDatabase.onCommitRequested = () => {}
      action()
    }
  }

  /** @param origin only without sockets: where the connection comes from, and what its upgrade proves */
  connect(name = 'worker', origin?: ConnectionOrigin): ScriptedConnection {
    return new ScriptedConnection(this, name, origin)
  }

  /** Opens a connection to the host, in memory or through a socket. */
  dial(
    listener: ScriptedConnectionListener & { takes(): boolean },
    origin?: ConnectionOrigin,
  ): ScriptedConnectionSender {
    return this.#socketTransport?.dial(listener) ?? connectInMemory(this.hostApi, listener, origin)
  }

  run(id: string): Run {
    const found = this.hostApi.run(id)
    if (!found.ok) throw new Error(found.refusal.message)
    return found.value
  }

  runOf(identifier: string): Run {
    const found = this.allRuns().find((run) => run.ticket.identifier === identifier)
    if (found === undefined) throw new Error(`no run of ${identifier}`)
    return found
  }

  /** Newest first. */
  allRuns(): readonly Run[] {
    const found = this.hostApi.runs({})
    if (!found.ok) throw new Error(found.refusal.message)
    return found.value.runs
  }

  /** The events of a run, one line each, such as `status preparing`. */
  async events(runId: string): Promise<string[]> {
    const found = await this.readEvents(runId)
    return found.map((event) => {
      if (event.type === 'status') return `status ${event.to}`
      if (event.type === 'log') return `${event.stream} ${event.text}`
      if (event.type === 'gap') return `gap ${event.from}–${event.to}`
      return event.type
    })
  }

  readEvents(runId: string, query: EventQuery = {}): Promise<RunEvent[]> {
    const found = this.hostApi.runEvents(runId, query)
    if (!found.ok) throw new Error(found.refusal.message)
    return collectEvents(found.value.events)
  }

  /** Records what is pushed to the dashboards from now on. */
  recordPushes(): DashboardPush[] {
    const pushes: DashboardPush[] = []
    this.hostApi.onPush((push) => void pushes.push(readPush(push)))
    return pushes
  }

  /** Lets everything under way happen, then returns the answer of this request. */
  async settled<T>(asked: Promise<Result<T>>): Promise<Result<T>> {
    await this.settle()
    return asked
  }

  async succeeded<T>(asked: Promise<Result<T>>): Promise<T> {
    const answer = await this.settled(asked)
    if (!answer.ok) throw new Error(answer.refusal.message)
    return answer.value
  }

  // ---- labels in transcripts --------------------------------------------------------------------------------------

  leaseLabel(leaseId: string): string {
    return this.#leases.get(leaseId) ?? leaseId
  }

  runLabel(runId: string): string {
    return this.#runs.get(runId) ?? runId
  }

  labelLease(frame: HostFrame): void {
    if (frame.type !== 'dispatch' || this.#leases.has(frame.lease.id)) return
    const { identifier } = frame.job.run.ticket
    const times = (this.#times.get(identifier) ?? 0) + 1
    this.#times.set(identifier, times)
    this.#leases.set(frame.lease.id, times === 1 ? identifier : `${identifier} (${times})`)
    this.#runs.set(frame.lease.runId, identifier)
  }
}

/** The tracker's status without the times and counts of its polls. */
export function trackerConnectionOf(host: HostConversation): TrackerStatus {
  const { state, error } = host.hostApi.hello().linearStatus
  return error === undefined ? { state } : { state, error }
}

export async function startHost(configText = config): Promise<HostConversation> {
  const host = new HostConversation(configText)
  await host.start()
  // No test wants its first event at the very instant of the start.
  await host.clock.advance(1000)
  return host
}

// ---- connections ---------------------------------------------------------------------------------------------------

const REFUSED_MAX = 20

export interface ConnectionOrigin {
  readonly address?: string
  readonly proof?: string | undefined
}

/** A connection to the host whose frames the test sends as a worker. */
export class ScriptedConnection {
  readonly received: HostFrame[] = []
  closed: { code: number; reason: string } | undefined
  /** How many more frames the connection accepts before its buffer counts as full. */
  framesUntilFull = Number.POSITIVE_INFINITY
  refusedCount = 0
  readonly #sender: ScriptedConnectionSender
  readonly #host: HostConversation
  readonly #name: string

  constructor(host: HostConversation, name: string, origin?: ConnectionOrigin) {
    this.#host = host
    this.#name = name
    const listener = {
      takes: () => this.closed === undefined && this.#mayTake(),
      onText: (text: string) => {
        const frame = JSON.parse(text) as HostFrame
        // Writing is closed: a key that no schema knows must not be sent.
        const checked = checkHostFrame(frame)
        if (!checked.ok) host.write(`!! the host sent ${text}: ${checked.error}`)
        this.received.push(frame)
        host.labelLease(frame)
        host.write(`host → ${name}  ${describeFrame(host, frame)}`)
      },
      onClose: (code: number, reason: string) => {
        if (this.closed !== undefined) return
        this.closed = { code, reason }
        host.write(`host ✕ ${name}`)
      },
    }
    this.#sender = host.dial(listener, origin)
  }

  #mayTake(): boolean {
    if (this.framesUntilFull <= 0) return this.#countRefusal()
    this.framesUntilFull -= 1
    return true
  }

  #countRefusal(): boolean {
    this.refusedCount += 1
    if (this.refusedCount > REFUSED_MAX)
      throw new Error('the host keeps sending although the connection accepts no frames')
    return false
  }

  async send(...frames: (WorkerFrame | object)[]): Promise<void> {
    for (const frame of frames) {
      this.#host.write(`${this.#name} → host  ${describeFrame(this.#host, frame as WorkerFrame)}`)
      this.#sender.send(JSON.stringify(frame))
    }
    await this.#host.settle()
  }

  /** Sends frames that arrive in one turn, each of which takes the host so long. */
  sendWithinTurn(msEach: number, ...frames: readonly WorkerFrame[]): void {
    for (const frame of frames) {
      this.#sender.send(JSON.stringify(frame))
      this.#host.clock.work(msEach)
    }
  }

  async sendText(text: string): Promise<void> {
    this.#host.write(`${this.#name} → host  ${text.length > 60 ? `${text.length} characters` : text}`)
    this.#sender.send(text)
    await this.#host.settle()
  }

  /** Sends a heartbeat that holds these leases. */
  sendHeartbeat(...holding: readonly { readonly holding: RunLease }[]): Promise<void> {
    return this.send(heartbeat(this.#host, ...holding))
  }

  async drop(): Promise<void> {
    if (this.closed !== undefined) return
    this.closed = { code: 1006, reason: 'dropped' }
    this.#host.write(`the connection of ${this.#name} breaks`)
    this.#sender.breakOff()
    await this.#host.settle()
  }

  lastReceived<T extends HostFrameType>(type: T): HostFrameOf<T> {
    const found = this.received.findLast((frame) => frame.type === type)
    if (found === undefined)
      throw new Error(
        `the host sent no ${type}, only: ${this.received.map((frame) => frame.type).join(', ')}`,
      )
    return found as HostFrameOf<T>
  }

  hasReceived(type: HostFrameType): boolean {
    return this.received.some((frame) => frame.type === type)
  }

  countReceived(type: HostFrameType): number {
    return this.received.filter((frame) => frame.type === type).length
  }

  /** The number up to which the latest `lease-ack` acknowledges this lease. */
  acknowledged(work: Work): number | undefined {
    return this.lastReceived('lease-ack').leases.find(({ leaseId }) => leaseId === work.id)?.seq
  }
}

function connectInMemory(
  hostApi: HostApi,
  listener: ScriptedConnectionListener & { takes(): boolean },
  { address = '127.0.0.1', proof }: ConnectionOrigin = {},
): ScriptedConnectionSender {
  let over = false
  const sender: WorkerSender = {
    address,
    send: (text) => {
      if (!listener.takes()) return false
      listener.onText(text)
      return true
    },
    close: (code, reason) => {
      if (over) return
      over = true
      listener.onClose(code, reason)
      hangUp()
    },
  }
  const line = hostApi.connectWorker(sender, proof)
  if (!line.ok) throw new Error(line.refusal.message)
  const hangUp = () => line.value.onClosed()
  return {
    send: (text) => line.value.onText(text),
    breakOff: () => {
      over = true
      line.value.onClosed()
    },
  }
}

export function heartbeat(
  host: HostConversation,
  ...works: readonly { readonly holding: RunLease }[]
): { readonly type: 'heartbeat'; readonly sentAt: number; readonly [field: string]: unknown } {
  const leases = works.map(({ holding }) => holding)
  return { type: 'heartbeat', leases, attachSessions: 0, sentAt: host.clock.monotonic() + 7 }
}

function describeFrame(host: HostConversation, frame: WorkerFrame | HostFrame): string {
  const lease = 'leaseId' in frame && frame.leaseId !== undefined ? ` ${host.leaseLabel(frame.leaseId)}` : ''
  const seq = 'seq' in frame && typeof frame.seq === 'number' ? ` #${frame.seq}` : ''
  return `${frame.type}${lease}${seq}${describeDetails(host, frame)}`
}

function describeDetails(host: HostConversation, frame: WorkerFrame | HostFrame): string {
  switch (frame.type) {
    case 'register':
      return holding(host, frame.activeLeases)
    case 'heartbeat':
      return holding(host, frame.leases)
    case 'registered':
      return `${frame.state === 'draining' ? ', draining' : ''}${frame.credential === undefined ? '' : ', with a credential'}`
    case 'heartbeat-ack':
    case 'worker-state':
      return ` ${frame.state}`
    case 'dispatch':
      return ` ${host.leaseLabel(frame.lease.id)}${frame.job.kind === 'publish' ? ', to publish' : ''}`
    case 'lease-ack':
      return frame.leases.length === 0
        ? ' of nothing'
        : frame.leases.map(({ leaseId, seq }) => ` ${host.leaseLabel(leaseId)} up to ${seq}`).join(',')
    case 'rejected':
      return ` ${frame.code}: ${frame.reason}`
    case 'dispatch-rejected':
    case 'lease-lost':
    case 'cancel':
    case 'revoked':
      return `: ${frame.reason}`
    case 'run-patch':
      return frame.patch.status === undefined ? '' : ` ${frame.patch.status}`
    case 'run-complete':
      return ` ${frame.outcome.status}${frame.outcome.failure === 'publish' ? ', unpublished' : ''}`
    case 'lease-gap':
      return ` ${frame.from}–${frame.to}`
    case 'discard':
    case 'sandbox-boot':
    case 'sandbox-release':
      return ` ${host.runLabel(frame.runId)}`
    case 'attach-open':
      return ` ${host.runLabel(frame.runId)} ${frame.cols}×${frame.rows}`
    case 'attach-resize':
      return ` ${frame.cols}×${frame.rows}`
    case 'attach-input':
    case 'attach-data':
      return ` ${JSON.stringify(frame.data)}`
    case 'attach-exit':
      return ` ${frame.code}`
    case 'attach-taken':
      return ` ${frame.inputs}`
    case 'attach-error':
    case 'sandbox-failed':
      return `: ${frame.message}`
    default:
      return ''
  }
}

const holding = (host: HostConversation, leases: readonly RunLease[]): string =>
  leases.length === 0 ? '' : `, holding ${leases.map(({ id }) => host.leaseLabel(id)).join(', ')}`

// ---- workers ---------------------------------------------------------------------------------------------------

export interface EnrolledScriptedWorker {
  readonly connection: ScriptedConnection
  readonly workerId: string
  readonly credential: string
  readonly concurrency: number
  readonly name: string
}

export function pairingToken(host: HostConversation): string {
  const minted = host.hostApi.mintPairingToken()
  if (!minted.ok) throw new Error(minted.refusal.message)
  return minted.value.token
}

export const registerWithToken = (
  pairingToken: string,
  name = 'worker',
  concurrency = 2,
  moreCapabilities: object = {},
) => ({
  type: 'register',
  protocolVersion: 1,
  oldestProtocolVersion: 1,
  auth: { kind: 'pairing', token: pairingToken },
  name,
  capabilities: { ...capabilities, maxConcurrency: concurrency, ...moreCapabilities },
  activeLeases: [],
})

export async function enroll(
  host: HostConversation,
  name = 'worker',
  concurrency = 2,
  moreCapabilities: object = {},
): Promise<EnrolledScriptedWorker> {
  const connection = host.connect(name)
  await connection.send(registerWithToken(pairingToken(host), name, concurrency, moreCapabilities))
  const { workerId, credential } = connection.lastReceived('registered')
  if (credential === undefined) throw new Error('no credential')
  return { connection, workerId, credential, concurrency, name }
}

export const registerWithCredential = (
  {
    workerId,
    credential,
    concurrency = 2,
  }: Pick<EnrolledScriptedWorker, 'workerId' | 'credential'> & Partial<EnrolledScriptedWorker>,
  activeLeases: readonly object[] = [],
) => ({
  type: 'register',
  protocolVersion: 1,
  oldestProtocolVersion: 1,
  auth: { kind: 'credential', workerId, secret: credential },
  name: 'worker',
  capabilities: { ...capabilities, maxConcurrency: concurrency },
  activeLeases,
})

/** Connects the worker again with its credential, claiming these leases. */
export async function reconnect(
  host: HostConversation,
  worker: EnrolledScriptedWorker,
  ...works: readonly Work[]
): Promise<ScriptedConnection> {
  const connection = host.connect(worker.name)
  await connection.send(
    registerWithCredential(
      worker,
      works.map((work) => work.holding),
    ),
  )
  return connection
}

/** A leased run on the worker's side: creates its frames, each with the next number. */
export class Work {
  readonly id: string
  readonly runId: string
  readonly job: Job
  readonly #expiresAt: string
  #seq = 0

  constructor({ lease, job }: HostFrameOf<'dispatch'>) {
    this.id = lease.id
    this.runId = lease.runId
    this.job = job
    this.#expiresAt = lease.expiresAt
  }

  get holding(): RunLease {
    return { id: this.id, runId: this.runId, expiresAt: this.#expiresAt, lastSeq: this.#seq }
  }

  /** Sets the number of the next frame. */
  at(seq: number): this {
    this.#seq = seq - 1
    return this
  }

  accept() {
    return { type: 'dispatch-accepted', leaseId: this.id } as const
  }
  reject(reason: string) {
    return { type: 'dispatch-rejected', leaseId: this.id, reason } as const
  }
  event(text = 'hello') {
    const event = { at: '2026-01-01T00:00:00.000Z', type: 'log', stream: 'stdout', text } as const
    return { type: 'run-event', ...this.#next(), event } as const
  }
  patch(patch: RunPatch) {
    return { type: 'run-patch', ...this.#next(), patch } as const
  }
  running() {
    return this.patch({ status: 'running' })
  }
  artifact(name: string, text: string, part = 0, final = true) {
    const data = Buffer.from(text).toString('base64')
    return { type: 'run-artifact', ...this.#next(), name, part, final, data } as const
  }
  memories(repo: string, ...facts: readonly string[]) {
    return { type: 'run-memories', ...this.#next(), repo, facts } as const
  }
  usage(snapshot: object) {
    return { type: 'run-usage-snapshot', ...this.#next(), snapshot } as const
  }
  complete(outcome: Partial<RunOutcome> = {}) {
    return {
      type: 'run-complete',
      ...this.#next(),
      outcome: { status: 'completed', costs: [], ...outcome },
    } as const
  }
  gap(from: number, to: number) {
    this.#seq = to
    return { type: 'lease-gap', leaseId: this.id, from, to } as const
  }

  #next() {
    this.#seq += 1
    return { leaseId: this.id, seq: this.#seq }
  }
}

export interface LeasedScriptedWorker {
  readonly worker: EnrolledScriptedWorker
  readonly connection: ScriptedConnection
  readonly work: Work
  readonly runId: string
}

/** Enrolls a worker and has it receive the dispatch of a ticket's run, without answering it. */
export async function offerRun(
  host: HostConversation,
  identifier = 'ENG-1',
  concurrency = 2,
): Promise<LeasedScriptedWorker> {
  return host.withoutTranscript(async () => {
    const worker = await enroll(host, 'worker', concurrency)
    host.tracker.put(ticket(identifier))
    await host.settle()
    const work = new Work(worker.connection.lastReceived('dispatch'))
    return { worker, connection: worker.connection, work, runId: work.runId }
  })
}

/** As `offerRun`; the worker then accepts the dispatch and sends a heartbeat. */
export async function acceptRun(
  host: HostConversation,
  identifier = 'ENG-1',
  concurrency = 2,
): Promise<LeasedScriptedWorker> {
  const given = await offerRun(host, identifier, concurrency)
  await host.withoutTranscript(async () => {
    await given.connection.send(given.work.accept())
    await given.connection.sendHeartbeat(given.work)
  })
  return given
}

export const cost = (costUsd: number) => ({
  label: 'whatever the worker calls it',
  provider: 'agentA',
  model: 'm',
  inputTokens: 10,
  outputTokens: 1,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  costUsd,
  estimated: false,
})
