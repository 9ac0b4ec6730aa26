/**
 * An hour of a busy fleet leaves memory as it was: runs, leases, connections, frames, deadlines and timers are gone
 * when it is over, except for caches with a limit.
 */
import { expect, test } from '@jest/globals'
import type { HostApi } from '../../actors/api/host-api.ts'
import { RunEventLog } from '../../actors/runs/run-event-log.ts'
import type { WorkerReceiver } from '../../core/ports/connections.ts'
import { yes } from '../../core/result.ts'
import type { HostFrame } from '../../protocol/frames.ts'
import { capabilities, config, ScriptedTracker, ticket } from '../conversations/host-conversation.ts'
import { createInMemoryHost } from '../support/host-in-memory.ts'
import { Random, seedFromEnvironment } from '../support/random.ts'

const CYCLES = Number(process.env.FLEET_CYCLES ?? 240)
/** Long enough for every backoff, push and answer timeout to end. */
const A_WHILE_MS = 30 * 60_000
const T = '2026-01-01T00:00:00.000Z'

/** A simple worker sends the frames that a test chooses, and remembers its leases. */
class SimpleWorker {
  readonly #fleet: TestFleet
  readonly #name: string
  #connection: WorkerReceiver | undefined
  #identity: { readonly workerId: string; readonly secret: string } | undefined
  readonly held = new Map<string, { seq: number; readonly runId: string }>()
  readonly offered: string[] = []

  constructor(fleet: TestFleet, name: string) {
    this.#fleet = fleet
    this.#name = name
  }

  connect(): void {
    const connection = this.#fleet.hostApi.connectWorker({
      address: '127.0.0.1',
      send: (text) => {
        this.#handleFrame(JSON.parse(text) as HostFrame)
        return true
      },
      close: () => this.disconnect(),
    })
    if (!connection.ok) throw new Error(connection.refusal.message)
    this.#connection = connection.value
  }

  disconnect(): void {
    const connection = this.#connection
    this.#connection = undefined
    connection?.onClosed()
  }

  async sendFrames(...frames: readonly object[]): Promise<void> {
    for (const frame of frames) this.#connection?.onText(JSON.stringify(frame))
    await this.#fleet.clock.settle()
  }

  async register(): Promise<void> {
    const minted = this.#identity === undefined ? this.#fleet.hostApi.mintPairingToken() : undefined
    if (minted?.ok === false) throw new Error(minted.refusal.message)
    this.connect()
    await this.sendFrames({
      type: 'register',
      protocolVersion: 1,
      auth:
        this.#identity === undefined
          ? { kind: 'pairing', token: minted?.value.token }
          : { kind: 'credential', ...this.#identity },
      name: this.#name,
      capabilities,
      activeLeases: this.#holding(),
    })
  }

  sendHeartbeat(): Promise<void> {
    const { clock } = this.#fleet
    return this.sendFrames({
      type: 'heartbeat',
      sentAt: clock.monotonic(),
      leases: this.#holding(),
      attachSessions: 0,
    })
  }

  /** The next numbered frame of a lease. */
  sendNumbered(leaseId: string, frame: object): Promise<void> {
    const own = this.held.get(leaseId)
    return own === undefined ? Promise.resolve() : this.sendFrames({ ...frame, leaseId, seq: ++own.seq })
  }

  #holding(): object[] {
    return [...this.held].map(([id, { seq, runId }]) => ({ id, runId, expiresAt: T, lastSeq: seq }))
  }

  #handleFrame(frame: HostFrame): void {
    if (frame.type === 'registered' && frame.credential !== undefined)
      this.#identity = { workerId: frame.workerId, secret: frame.credential }
    if (frame.type === 'dispatch') {
      this.offered.push(frame.lease.id)
      this.held.set(frame.lease.id, { seq: 0, runId: frame.lease.runId })
    }
    if (frame.type === 'run-complete-ack' || frame.type === 'lease-lost') this.held.delete(frame.leaseId)
  }
}

async function createFleet() {
  const random = new Random(7)
  const tracker = new ScriptedTracker()
  const hostApis: HostApi[] = []
  const made = createInMemoryHost(config, {
    tracker: () => tracker,
    random: {
      bytes: (count) => Uint8Array.from({ length: count }, () => random.below(256)),
      fraction: () => random.fraction(),
    },
    openListeners: async (hostApi) => {
      hostApis.push(hostApi)
      return yes({ close: async () => {} })
    },
  })
  made.host.start()
  await made.clock.settle()
  const [hostApi] = hostApis
  if (hostApi === undefined) throw new Error('the host did not open its doors')
  return { ...made, tracker, hostApi }
}
type TestFleet = Awaited<ReturnType<typeof createFleet>>

/** Runs one ticket to one of its possible ends. */
async function cycle(
  fleet: TestFleet,
  workers: readonly SimpleWorker[],
  n: number,
  random: Random,
): Promise<void> {
  const openTicket = ticket(`ENG-${n}`)
  fleet.tracker.put(openTicket)
  await fleet.clock.settle()
  for (const worker of workers)
    for (const leaseId of worker.offered.splice(0)) await execute(fleet, workers, worker, leaseId, random)
  fleet.tracker.close({ ...openTicket, state: 'Done' })
  await fleet.clock.settle()
}

async function execute(
  fleet: TestFleet,
  workers: readonly SimpleWorker[],
  worker: SimpleWorker,
  leaseId: string,
  random: Random,
): Promise<void> {
  const own = worker.held.get(leaseId)
  // The lease was offered earlier and has ended since.
  if (own === undefined) return
  // Rejections are rare, because a worker that rejects often is skipped for a while, and then nothing happens.
  const draw = random.chance(0.04)
    ? random.pick(['rejected', 'unanswered'])
    : random.pick(['away', 'artifacts', 'cancelled', 'forgotten', 'plain', 'plain'])
  if (draw === 'rejected') {
    worker.held.delete(leaseId)
    await worker.sendFrames({ type: 'dispatch-rejected', leaseId, reason: 'not now' })
    return
  }
  if (draw === 'unanswered') return
  await worker.sendFrames({ type: 'dispatch-accepted', leaseId })
  await worker.sendNumbered(leaseId, { type: 'run-patch', patch: { status: 'running' } })
  const event = { at: T, type: 'log', stream: 'stdout', text: 'hello' }
  for (let count = random.below(5); count > 0; count--)
    await worker.sendNumbered(leaseId, { type: 'run-event', event })
  if (draw === 'away') {
    worker.disconnect()
    await advanceWithHeartbeats(
      fleet,
      workers.filter((candidate) => candidate !== worker),
      30_000,
    )
    await worker.register()
  }
  if (draw === 'artifacts') {
    await worker.sendNumbered(leaseId, {
      type: 'run-artifact',
      name: 'a.txt',
      part: 0,
      final: true,
      data: 'aGVsbG8=',
    })
    await worker.sendFrames({ type: 'lease-gap', leaseId, from: own.seq + 1, to: own.seq + 3 })
    own.seq += 3
  }
  if (draw === 'cancelled') await cancelRun(fleet, own.runId)
  if (draw === 'forgotten') {
    worker.held.delete(leaseId)
    await worker.sendHeartbeat()
    return
  }
  const outcome = { status: draw === 'cancelled' ? 'cancelled' : 'completed', costs: [] }
  await worker.sendNumbered(leaseId, { type: 'run-complete', outcome })
}

async function cancelRun(fleet: TestFleet, runId: string): Promise<void> {
  const answer = fleet.hostApi.cancelRun(runId)
  await fleet.clock.settle()
  await answer
}

/** Advances the clock while every worker sends heartbeats. */
async function advanceWithHeartbeats(
  fleet: TestFleet,
  workers: readonly SimpleWorker[],
  ms: number,
): Promise<void> {
  for (let passed = 0; passed < ms; passed += 15_000) {
    await fleet.clock.advance(15_000)
    for (const worker of workers) await worker.sendHeartbeat()
  }
}

test(`memory is flat over ${CYCLES} runs and as many connections`, async () => {
  const seed = seedFromEnvironment(1)
  const random = new Random(seed)
  const fleet = await createFleet()
  fleet.hostApi.onPush(() => {})
  const workers = ['anvil', 'hammer', 'tongs'].map((name) => new SimpleWorker(fleet, name))
  for (const worker of workers) await worker.register()
  await advanceWithHeartbeats(fleet, workers, A_WHILE_MS)
  const census = (): Record<string, number> => ({
    run: 0,
    lease: 0,
    ...fleet.host.countInMemory(),
    timers: fleet.clock.timers,
  })
  const before = census()
  expect(before).toMatchObject({ worker: 3, connection: 3, connections: 3, monotonicTimers: 3, deadlines: 0 })

  for (let n = 0; n < CYCLES; n++) {
    await cycle(fleet, workers, n, random)
    // Open a connection that sends nothing, and one that sends an invalid frame.
    new SimpleWorker(fleet, 'silent').connect()
    const unregistered = new SimpleWorker(fleet, 'unregistered')
    unregistered.connect()
    await unregistered.sendFrames({ type: 'nonsense' })
    await advanceWithHeartbeats(fleet, workers, 15_000)
  }
  // Deny leases that are still held, and cancel runs that still wait.
  for (const worker of workers) worker.held.clear()
  await advanceWithHeartbeats(fleet, workers, 15_000)
  for (let round = 0; round < 10; round++) {
    const open = fleet.hostApi.runs({ status: ['queued', 'preparing', 'running', 'finalizing'], limit: 500 })
    for (const { id } of open.ok ? open.value.runs : []) await cancelRun(fleet, id)
    for (const worker of workers) worker.held.clear()
    await advanceWithHeartbeats(fleet, workers, 60_000)
  }
  await advanceWithHeartbeats(fleet, workers, A_WHILE_MS)

  expect(fleet.store.database.runs.count()).toBe(CYCLES)
  expect(fleet.store.database.runs.count('completed')).toBeGreaterThan(CYCLES / 4)
  const { runsInLog, ...after } = census()
  const { runsInLog: _, ...was } = before
  expect({ seed, ...after }).toEqual({ seed, ...was })
  // The run event log keeps these, up to a limit.
  expect(runsInLog).toBeLessThanOrEqual(CYCLES)
  // The disk holds nothing of actors that have ended.
  expect([...fleet.store.database.snapshots.all('run')]).toEqual([])
  expect([...fleet.store.database.snapshots.all('lease')]).toEqual([])
  expect([...fleet.store.database.keyValues.all('mark')]).toEqual([])
  expect(fleet.log.lines.filter(({ level }) => level === 'error')).toEqual([])
}, 240_000)

test('the run event log keeps a limited number of runs in memory', async () => {
  const journal = new RunEventLog({
    events: { begin: () => {}, nextIndex: () => 0, storedBytes: () => 0 },
    requestCommit: () => {},
    publish: () => {},
    onLimit: () => {},
  })
  let most = 0
  for (let run = 0; run < 20_000; run++) {
    journal.appendText(`run-${run}`, T, 'hello')
    journal.contribute()?.onCommitted()
    most = Math.max(most, journal.size)
  }
  expect(most).toBeLessThanOrEqual(4_097)
})
