/**
 * A host in memory and workers on wires that a test holds in its hand: what is said is written down as a transcript.
 *
 * Leases are called by their tickets (`ENG-1`, and `ENG-1 (2)` for the second one of the same ticket). A broken law, or
 * an error in the host's log, appears in the transcript too, where no test expects it.
 *
 * With TALK=sockets in the environment the wires are connections to the production doors around the same host.
 */
import { test } from '@jest/globals'
import type { FrontDesk } from '../../actors/api/host-api.ts'
import type { HostParts } from '../../actors/root/create-host.ts'
import type {
  Clock,
  ControlDatabase,
  Meters,
  PullLink,
  StoreState,
  TrackedTicket,
  Tracker,
  TrackerListing,
  Write,
} from '../../core/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { DashboardPush } from '../../protocol/dashboard.ts'
import type {
  HostFrame,
  HostFrameOf,
  HostFrameType,
  Job,
  RunLease,
  RunOutcome,
  RunPatch,
  WorkerFrame,
} from '../../protocol/frames.ts'
import { WORKER_HEARTBEAT_MS } from '../../protocol/limits.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import type { MemoryControlDatabase } from '../../store/memory/control-database.ts'
import { createMemoryStore, type MemoryStore } from '../../store/memory-store.ts'
import { hostInMemory } from '../support/host-in-memory.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { Random } from '../support/random.ts'
import { type KeptLog, keptLog } from '../support/recording-log.ts'
import type { SocketHouse, WireEars, WireMouth } from './socket-conversation.ts'

/** Asked for only then: the doors bring a listener that the wires in the hand have no use for. */
const sockets = process.env.TALK === 'sockets' ? await import('./socket-conversation.ts') : undefined

/** A test of what only a wire in the hand can do; through sockets it is skipped, for the reason given. */
export const inHand = (_reason: string): typeof test | typeof test.skip =>
  sockets === undefined ? test : test.skip

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

/** The usual configuration with other sections. */
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

/** A tracker held in the hand. */
export class HandTracker implements Tracker {
  tickets = new Map<string, TrackedTicket>()
  /** Given instead of the tickets, when there is one. */
  answer: Result<TrackerListing> | undefined
  looks = 0
  #changed: () => void = () => {}

  async listTickets() {
    this.looks += 1
    return this.answer ?? yes({ tickets: [...this.tickets.values()], problems: [] })
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
  async linkPull(_ticketId: string, _link: PullLink): Promise<Result<void>> {
    return yes(undefined)
  }
  async projects() {
    return yes([])
  }
  /** All of them at once: the host sees them in one look. */
  put(...tickets: readonly Ticket[]): void {
    for (const one of tickets) this.tickets.set(one.id, { ticket: one, closed: false })
    this.#changed()
  }
  close(one: Ticket): void {
    this.tickets.set(one.id, { ticket: one, closed: true })
    this.#changed()
  }
  touch(): void {
    this.#changed()
  }
}

// ---- one host after another on one disk --------------------------------------------------------------------------

/** A host's own view of the time: dead, nothing of it runs any more, as after `kill -9`. */
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

/**
 * The disk as one host sees it. What it asks to be written is on its way for a tick, and for as long as the disk is
 * full; with the host dead, what is on its way is lost.
 */
class Writing implements ControlDatabase {
  alive = true
  readonly snapshots
  readonly runs
  readonly keyValues
  readonly #database: MemoryControlDatabase
  readonly #clock: Clock
  #onTheWay: (() => void)[] = []
  /** Told of each commit that has been asked for. */
  asked: (writes: readonly Write[]) => void = () => {}

  constructor(database: MemoryControlDatabase, clock: Clock) {
    this.#database = database
    this.#clock = clock
    this.snapshots = database.snapshots
    this.runs = database.runs
    this.keyValues = database.keyValues
  }

  commit(writes: readonly Write[]): Promise<void> {
    const landed = new Promise<void>((resolve, reject) => {
      this.#onTheWay.push(() => void this.#database.commit(writes).then(resolve, reject))
    })
    this.#clock.endOfTick(() => this.flush())
    this.asked(writes)
    return landed
  }

  flush(): void {
    if (this.alive && this.state().is === 'ready') for (const go of this.#onTheWay.splice(0)) go()
  }

  state = () => this.#database.state()
  onState = (listener: (state: StoreState) => void) =>
    this.#database.onState((state) => {
      if (this.alive) listener(state)
    })
  backup = () => this.#database.backup()
}

type Built = ReturnType<typeof hostInMemory>

/** A hand-wound clock whose turns may take more than the host's own ticks: whatever is on its way through sockets. */
class TalkClock extends ManualClock {
  around: ((turn: () => Promise<void>) => Promise<void>) | undefined

  override turn(): Promise<void> {
    return this.around === undefined ? super.turn() : this.around(() => super.turn())
  }
}

export class Yarn {
  readonly clock = new TalkClock()
  readonly tracker = new HandTracker()
  readonly log: KeptLog
  readonly store: MemoryStore
  said: string[] = []
  /** In place of the tracker in the hand, and of nobody to give out credentials. */
  around: Partial<HostParts> = {}
  readonly #random = new Random(7)
  readonly #config: string
  readonly #leases = new Map<string, string>()
  readonly #runs = new Map<string, string>()
  readonly #times = new Map<string, number>()
  #desk: FrontDesk | undefined
  #made: Built | undefined
  #leash: Leash | undefined
  #writing: Writing | undefined
  #muted = false
  #house: SocketHouse | undefined
  #turned: Promise<void> = Promise.resolve()

  constructor(configText: string) {
    if (sockets !== undefined) this.clock.around = (turn) => this.#oneByOne(turn)
    this.#config = configText
    this.store = createMemoryStore({ clock: this.clock, config: configText })
    const log = keptLog()
    this.log = { ...log, error: (fields, message) => this.write(`!! ${message} ${JSON.stringify(fields)}`) }
  }

  get desk(): FrontDesk {
    if (this.#desk === undefined) throw new Error('the host has not opened its doors')
    return this.#desk
  }

  async start(): Promise<void> {
    this.#desk = undefined
    const leash = new Leash(this.clock)
    const meters: Meters = {
      count: (name, labels) => {
        if (name === 'invariant_violations_total') this.write(`!! broken: ${labels?.law}`)
      },
      gauge: () => {},
      observe: () => {},
    }
    const writing = new Writing(this.store.database, this.clock)
    this.#leash = leash
    this.#writing = writing
    this.#made = hostInMemory((await this.store.config.read()) ?? this.#config, {
      clock: leash,
      store: { ...this.store, database: writing },
      log: this.log,
      meters,
      tracker: () => this.tracker,
      random: {
        bytes: (count) => Uint8Array.from({ length: count }, () => this.#random.below(256)),
        fraction: () => this.#random.fraction(),
      },
      openDoors: async (desk) => {
        this.#desk = desk
        if (sockets === undefined) return yes({ close: async () => {} })
        const house = await sockets.SocketHouse.open(desk, this.log)
        this.#house = house
        return yes({ close: () => house.close('the service is stopping') })
      },
      ...this.around,
    })
    this.#made.host.start()
    await this.settle()
  }

  census(): Readonly<Record<string, number>> {
    return this.#made?.host.census() ?? {}
  }

  /** Stops the host in order, without a second for anybody, and starts another one on the same disk. */
  async restart(): Promise<void> {
    this.write('the host stops and starts again')
    this.#made?.host.stop('a test wants it')
    await this.settle()
    this.#cut()
    await this.#house?.kill()
    await this.start()
  }

  /** What was not on disk is lost. */
  async crash(): Promise<void> {
    this.write('the host is killed and starts again')
    this.#cut()
    await this.#house?.kill()
    await this.settle()
    await this.start()
  }

  #cut(): void {
    if (this.#leash !== undefined) this.#leash.alive = false
    if (this.#writing !== undefined) this.#writing.alive = false
  }

  settle(): Promise<void> {
    return this.clock.turn()
  }

  /** Several may ask for a turn at once; the errands of one wire must not overtake those of another. */
  #oneByOne(turn: () => Promise<void>): Promise<void> {
    this.#turned = this.#turned.then(() => this.#house?.settle(turn) ?? turn())
    return this.#turned
  }

  async pass(seconds: number): Promise<void> {
    this.write(`${seconds} s pass`)
    await this.clock.advance(seconds * 1000)
  }

  write(line: string): void {
    if (!this.#muted) this.said.push(line)
  }

  /** From here on it matters what is said. */
  fresh(): void {
    this.said = []
  }

  async quietly<T>(does: () => Promise<T>): Promise<T> {
    this.#muted = true
    const done = await does()
    this.#muted = false
    return done
  }

  /** Time passes while these workers send their heartbeats. */
  async beating(seconds: number, ...beats: (readonly [Wire, ...Work[]])[]): Promise<void> {
    this.write(`${seconds} s of heartbeats`)
    const until = this.clock.monotonic() + seconds * 1000
    await this.quietly(async () => {
      for (;;) {
        for (const [wire, ...works] of beats) await wire.beat(...works)
        const left = until - this.clock.monotonic()
        if (left <= 0) return
        await this.clock.advance(Math.min(left, WORKER_HEARTBEAT_MS))
      }
    })
  }

  fill(): void {
    this.write('the disk is full')
    this.store.database.fill()
  }

  async drain(): Promise<void> {
    this.write('the disk has room again')
    this.store.database.drain()
    this.#writing?.flush()
    await this.settle()
  }

  /** Does something once, when such a life has been asked to be written and is not on disk yet. */
  beforeLanding(kind: string, does: () => void): void {
    const writing = this.#writing
    if (writing === undefined) return
    writing.asked = (writes) => {
      if (!writes.some((write) => write.table === 'snapshot' && write.kind === kind)) return
      writing.asked = () => {}
      does()
    }
  }

  connect(name = 'worker'): Wire {
    return new Wire(this, name)
  }

  /** The other end of a new wire. */
  reach(ears: WireEars & { takes(): boolean }): WireMouth {
    return this.#house?.dial(ears) ?? inTheHand(this.desk, ears)
  }

  run(id: string): Run {
    const found = this.desk.run(id)
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
    const found = this.desk.runs({})
    if (!found.ok) throw new Error(found.refusal.message)
    return found.value.runs
  }

  /** `0 status preparing`, one line an event. */
  async events(runId: string): Promise<string[]> {
    const found = await this.desk.runEvents(runId, {})
    if (!found.ok) throw new Error(found.refusal.message)
    return found.value.map((event) => {
      if (event.type === 'status') return `status ${event.to}`
      if (event.type === 'log') return `${event.stream} ${event.text}`
      if (event.type === 'gap') return `gap ${event.from}–${event.to}`
      return event.type
    })
  }

  /** What the dashboards are told from now on. */
  watch(): DashboardPush[] {
    const pushes: DashboardPush[] = []
    this.desk.onPush((push) => void pushes.push(push))
    return pushes
  }

  /** The answer to what was asked of the desk, once everything it waits for has happened. */
  async ask<T>(asked: Promise<Result<T>>): Promise<Result<T>> {
    await this.settle()
    return asked
  }

  async done<T>(asked: Promise<Result<T>>): Promise<T> {
    const answer = await this.ask(asked)
    if (!answer.ok) throw new Error(answer.refusal.message)
    return answer.value
  }

  // ---- names in transcripts ----------------------------------------------------------------------------------------

  named(leaseId: string): string {
    return this.#leases.get(leaseId) ?? leaseId
  }

  runNamed(runId: string): string {
    return this.#runs.get(runId) ?? runId
  }

  learn(frame: HostFrame): void {
    if (frame.type !== 'dispatch' || this.#leases.has(frame.lease.id)) return
    const { identifier } = frame.job.run.ticket
    const times = (this.#times.get(identifier) ?? 0) + 1
    this.#times.set(identifier, times)
    this.#leases.set(frame.lease.id, times === 1 ? identifier : `${identifier} (${times})`)
    this.#runs.set(frame.lease.runId, identifier)
  }
}

export async function yarn(configText = config): Promise<Yarn> {
  const made = new Yarn(configText)
  await made.start()
  // Nobody in these stories comes in the very moment of the start.
  await made.clock.advance(1000)
  return made
}

// ---- wires ---------------------------------------------------------------------------------------------------------

const REFUSED_MAX = 20

/** One line between a worker in the test's hand and the host. */
export class Wire {
  readonly heard: HostFrame[] = []
  closed: { code: number; reason: string } | undefined
  /** So many more frames until too much waits for a worker that does not read. */
  takes = Number.POSITIVE_INFINITY
  refused = 0
  readonly #line: WireMouth
  readonly #yarn: Yarn
  readonly #name: string

  constructor(yarn: Yarn, name: string) {
    this.#yarn = yarn
    this.#name = name
    this.#line = yarn.reach({
      takes: () => this.closed === undefined && this.#takes(),
      heard: (text) => {
        const frame = JSON.parse(text) as HostFrame
        this.heard.push(frame)
        yarn.learn(frame)
        yarn.write(`host → ${name}  ${brief(yarn, frame)}`)
      },
      closed: (code, reason) => {
        if (this.closed !== undefined) return
        this.closed = { code, reason }
        yarn.write(`host ✕ ${name}`)
      },
    })
  }

  #takes(): boolean {
    if (this.takes <= 0) return this.#refuse()
    this.takes -= 1
    return true
  }

  #refuse(): boolean {
    this.refused += 1
    if (this.refused > REFUSED_MAX) throw new Error('the host goes on and on, though nothing is taken')
    return false
  }

  async say(...frames: (WorkerFrame | object)[]): Promise<void> {
    for (const frame of frames) {
      this.#yarn.write(`${this.#name} → host  ${brief(this.#yarn, frame as WorkerFrame)}`)
      this.#line.receive(JSON.stringify(frame))
    }
    await this.#yarn.settle()
  }

  async sayText(text: string): Promise<void> {
    this.#yarn.write(`${this.#name} → host  ${text.length > 60 ? `${text.length} characters` : text}`)
    this.#line.receive(text)
    await this.#yarn.settle()
  }

  /** `sentAt` is a second before now, as if the line took that long. */
  beat(...holding: readonly { readonly holding: RunLease }[]): Promise<void> {
    return this.say(heartbeat(this.#yarn, ...holding))
  }

  async drop(): Promise<void> {
    if (this.closed !== undefined) return
    this.closed = { code: 1006, reason: 'dropped' }
    this.#yarn.write(`the wire of ${this.#name} breaks`)
    this.#line.closed()
    await this.#yarn.settle()
  }

  last<T extends HostFrameType>(type: T): HostFrameOf<T> {
    const found = this.heard.findLast((frame) => frame.type === type)
    if (found === undefined)
      throw new Error(`the host never said ${type}: ${this.heard.map((frame) => frame.type).join(', ')}`)
    return found as HostFrameOf<T>
  }

  has(type: HostFrameType): boolean {
    return this.heard.some((frame) => frame.type === type)
  }

  count(type: HostFrameType): number {
    return this.heard.filter((frame) => frame.type === type).length
  }

  /** Up to where its latest acknowledgement says that this work is on disk. */
  acknowledged(work: Work): number | undefined {
    return this.last('lease-ack').leases.find(({ leaseId }) => leaseId === work.id)?.seq
  }
}

function inTheHand(desk: FrontDesk, ears: WireEars & { takes(): boolean }): WireMouth {
  let over = false
  const line = desk.workerConnected({
    address: '127.0.0.1',
    send: (text) => {
      if (!ears.takes()) return false
      ears.heard(text)
      return true
    },
    close: (code, reason) => {
      if (over) return
      over = true
      ears.closed(code, reason)
      hangUp()
    },
  })
  if (!line.ok) throw new Error(line.refusal.message)
  const hangUp = () => line.value.closed()
  return {
    receive: (text) => line.value.receive(text),
    closed: () => {
      over = true
      line.value.closed()
    },
  }
}

export function heartbeat(
  yarn: Yarn,
  ...holding: readonly { readonly holding: RunLease }[]
): { readonly type: 'heartbeat'; readonly sentAt: number; readonly [field: string]: unknown } {
  const leases = holding.map((one) => one.holding)
  return { type: 'heartbeat', leases, attachSessions: 0, sentAt: yarn.clock.monotonic() + 7 }
}

function brief(yarn: Yarn, frame: WorkerFrame | HostFrame): string {
  const lease = 'leaseId' in frame && frame.leaseId !== undefined ? ` ${yarn.named(frame.leaseId)}` : ''
  const seq = 'seq' in frame && typeof frame.seq === 'number' ? ` #${frame.seq}` : ''
  return `${frame.type}${lease}${seq}${detail(yarn, frame)}`
}

function detail(yarn: Yarn, frame: WorkerFrame | HostFrame): string {
  switch (frame.type) {
    case 'register':
      return holding(yarn, frame.activeLeases)
    case 'heartbeat':
      return holding(yarn, frame.leases)
    case 'registered':
      return `${frame.state === 'draining' ? ', draining' : ''}${frame.credential === undefined ? '' : ', with a credential'}`
    case 'heartbeat-ack':
    case 'worker-state':
      return ` ${frame.state}`
    case 'dispatch':
      return ` ${yarn.named(frame.lease.id)}`
    case 'lease-ack':
      return frame.leases.length === 0
        ? ' of nothing'
        : frame.leases.map(({ leaseId, seq }) => ` ${yarn.named(leaseId)} up to ${seq}`).join(',')
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
      return ` ${frame.outcome.status}`
    case 'lease-gap':
      return ` ${frame.from}–${frame.to}`
    case 'discard':
    case 'sandbox-boot':
    case 'sandbox-release':
      return ` ${yarn.runNamed(frame.runId)}`
    case 'attach-open':
      return ` ${yarn.runNamed(frame.runId)} ${frame.cols}×${frame.rows}`
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

const holding = (yarn: Yarn, leases: readonly RunLease[]): string =>
  leases.length === 0 ? '' : `, holding ${leases.map(({ id }) => yarn.named(id)).join(', ')}`

// ---- workers ---------------------------------------------------------------------------------------------------

export interface Enrolled {
  readonly wire: Wire
  readonly workerId: string
  readonly credential: string
  readonly concurrency: number
  readonly name: string
}

export function token(yarn: Yarn): string {
  const minted = yarn.desk.mintPairingToken()
  if (!minted.ok) throw new Error(minted.refusal.message)
  return minted.value.token
}

export const pairing = (pairingToken: string, name = 'worker', concurrency = 2) => ({
  type: 'register',
  protocolVersion: 1,
  auth: { kind: 'pairing', token: pairingToken },
  name,
  capabilities: { ...capabilities, maxConcurrency: concurrency },
  activeLeases: [],
})

export async function enroll(yarn: Yarn, name = 'worker', concurrency = 2): Promise<Enrolled> {
  const wire = yarn.connect(name)
  await wire.say(pairing(token(yarn), name, concurrency))
  const { workerId, credential } = wire.last('registered')
  if (credential === undefined) throw new Error('no credential')
  return { wire, workerId, credential, concurrency, name }
}

export const rejoin = (
  { workerId, credential, concurrency = 2 }: Pick<Enrolled, 'workerId' | 'credential'> & Partial<Enrolled>,
  activeLeases: readonly object[] = [],
) => ({
  type: 'register',
  protocolVersion: 1,
  auth: { kind: 'credential', workerId, secret: credential },
  name: 'worker',
  capabilities: { ...capabilities, maxConcurrency: concurrency },
  activeLeases,
})

/** On a new line, holding these. */
export async function back(yarn: Yarn, worker: Enrolled, ...works: readonly Work[]): Promise<Wire> {
  const wire = yarn.connect(worker.name)
  await wire.say(
    rejoin(
      worker,
      works.map((work) => work.holding),
    ),
  )
  return wire
}

/** A run in the hands of a worker: makes its frames, each with the next number. */
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

  /** The number of the next frame becomes this one. */
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

export interface Busy {
  readonly worker: Enrolled
  readonly wire: Wire
  readonly work: Work
  readonly runId: string
}

/** A worker that has just been given the run of a ticket, and has not answered. */
export async function offered(yarn: Yarn, identifier = 'ENG-1', concurrency = 2): Promise<Busy> {
  return yarn.quietly(async () => {
    const worker = await enroll(yarn, 'worker', concurrency)
    yarn.tracker.put(ticket(identifier))
    await yarn.settle()
    const work = new Work(worker.wire.last('dispatch'))
    return { worker, wire: worker.wire, work, runId: work.runId }
  })
}

/** The same once it has accepted, and sent a heartbeat. */
export async function busy(yarn: Yarn, identifier = 'ENG-1', concurrency = 2): Promise<Busy> {
  const given = await offered(yarn, identifier, concurrency)
  await yarn.quietly(async () => {
    await given.wire.say(given.work.accept())
    await given.wire.beat(given.work)
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
