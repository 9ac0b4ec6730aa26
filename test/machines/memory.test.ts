/**
 * An hour of a busy fleet leaves memory as it was: whatever comes (runs, leases, lines, frames, deadlines, alarms) has
 * gone when it is over, but for what is bounded.
 */
import { expect, test } from '@jest/globals'
import type { WorkerReceiver } from '../../core/connection-ports.ts'
import type { HostApi } from '../../actors/api/host-api.ts'
import { RunEventLog } from '../../actors/runs/run-event-log.ts'
import { yes } from '../../core/result.ts'
import type { HostFrame } from '../../protocol/frames.ts'
import { capabilities, config, ScriptedTracker, ticket } from '../conversations/host-conversation.ts'
import { hostInMemory } from '../support/host-in-memory.ts'
import { firstSeed, Random } from '../support/random.ts'

const CYCLES = Number(process.env.FLEET_CYCLES ?? 240)
/** Long enough for every pause, hold, push and answer to be over. */
const A_WHILE_MS = 30 * 60_000
const T = '2026-01-01T00:00:00.000Z'

/** A worker as simple as can be: it does what the test says, and remembers which leases it has. */
class Hand {
  readonly #fleet: Fleet
  readonly #name: string
  #line: WorkerReceiver | undefined
  #identity: { readonly workerId: string; readonly secret: string } | undefined
  readonly held = new Map<string, { seq: number; readonly runId: string }>()
  readonly offered: string[] = []

  constructor(fleet: Fleet, name: string) {
    this.#fleet = fleet
    this.#name = name
  }

  connect(): void {
    const line = this.#fleet.hostApi.connectWorker({
      address: '127.0.0.1',
      send: (text) => {
        this.#hear(JSON.parse(text) as HostFrame)
        return true
      },
      close: () => this.drop(),
    })
    if (!line.ok) throw new Error(line.refusal.message)
    this.#line = line.value
  }

  drop(): void {
    const line = this.#line
    this.#line = undefined
    line?.onClosed()
  }

  async say(...frames: readonly object[]): Promise<void> {
    for (const frame of frames) this.#line?.onText(JSON.stringify(frame))
    await this.#fleet.clock.turn()
  }

  async register(): Promise<void> {
    const minted = this.#identity === undefined ? this.#fleet.hostApi.mintPairingToken() : undefined
    if (minted?.ok === false) throw new Error(minted.refusal.message)
    this.connect()
    await this.say({
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

  beat(): Promise<void> {
    const { clock } = this.#fleet
    return this.say({
      type: 'heartbeat',
      sentAt: clock.monotonic(),
      leases: this.#holding(),
      attachSessions: 0,
    })
  }

  /** The next numbered frame of a lease. */
  report(leaseId: string, frame: object): Promise<void> {
    const own = this.held.get(leaseId)
    return own === undefined ? Promise.resolve() : this.say({ ...frame, leaseId, seq: ++own.seq })
  }

  #holding(): object[] {
    return [...this.held].map(([id, { seq, runId }]) => ({ id, runId, expiresAt: T, lastSeq: seq }))
  }

  #hear(frame: HostFrame): void {
    if (frame.type === 'registered' && frame.credential !== undefined)
      this.#identity = { workerId: frame.workerId, secret: frame.credential }
    if (frame.type === 'dispatch') {
      this.offered.push(frame.lease.id)
      this.held.set(frame.lease.id, { seq: 0, runId: frame.lease.runId })
    }
    if (frame.type === 'run-complete-ack' || frame.type === 'lease-lost') this.held.delete(frame.leaseId)
  }
}

async function fleet() {
  const random = new Random(7)
  const tracker = new ScriptedTracker()
  const doors: HostApi[] = []
  const made = hostInMemory(config, {
    tracker: () => tracker,
    random: {
      bytes: (count) => Uint8Array.from({ length: count }, () => random.below(256)),
      fraction: () => random.fraction(),
    },
    openListeners: async (hostApi) => {
      doors.push(hostApi)
      return yes({ close: async () => {} })
    },
  })
  made.host.start()
  await made.clock.turn()
  const [hostApi] = doors
  if (hostApi === undefined) throw new Error('the host did not open its doors')
  return { ...made, tracker, hostApi }
}
type Fleet = Awaited<ReturnType<typeof fleet>>

/** One ticket's run, by one of the ways in which it can go. */
async function cycle(y: Fleet, hands: readonly Hand[], n: number, random: Random): Promise<void> {
  const one = ticket(`ENG-${n}`)
  y.tracker.put(one)
  await y.clock.turn()
  for (const hand of hands)
    for (const leaseId of hand.offered.splice(0)) await execute(y, hands, hand, leaseId, random)
  y.tracker.close({ ...one, state: 'Done' })
  await y.clock.turn()
}

async function execute(
  y: Fleet,
  hands: readonly Hand[],
  hand: Hand,
  leaseId: string,
  random: Random,
): Promise<void> {
  const own = hand.held.get(leaseId)
  // Offered a while ago, and taken back since.
  if (own === undefined) return
  // Refusals are rare: a worker that refuses often is put on hold, and then nothing happens.
  const way = random.random(0.04)
    ? random.pick(['rejected', 'unanswered'])
    : random.pick(['away', 'artifacts', 'cancelled', 'forgotten', 'plain', 'plain'])
  if (way === 'rejected') {
    hand.held.delete(leaseId)
    await hand.say({ type: 'dispatch-rejected', leaseId, reason: 'not now' })
    return
  }
  if (way === 'unanswered') return
  await hand.say({ type: 'dispatch-accepted', leaseId })
  await hand.report(leaseId, { type: 'run-patch', patch: { status: 'running' } })
  const event = { at: T, type: 'log', stream: 'stdout', text: 'hello' }
  for (let line = random.below(5); line > 0; line--) await hand.report(leaseId, { type: 'run-event', event })
  if (way === 'away') {
    hand.drop()
    await pass(
      y,
      hands.filter((other) => other !== hand),
      30_000,
    )
    await hand.register()
  }
  if (way === 'artifacts') {
    await hand.report(leaseId, {
      type: 'run-artifact',
      name: 'a.txt',
      part: 0,
      final: true,
      data: 'aGVsbG8=',
    })
    await hand.say({ type: 'lease-gap', leaseId, from: own.seq + 1, to: own.seq + 3 })
    own.seq += 3
  }
  if (way === 'cancelled') await cancelled(y, own.runId)
  if (way === 'forgotten') {
    hand.held.delete(leaseId)
    await hand.beat()
    return
  }
  const outcome = { status: way === 'cancelled' ? 'cancelled' : 'completed', costs: [] }
  await hand.report(leaseId, { type: 'run-complete', outcome })
}

async function cancelled(y: Fleet, runId: string): Promise<void> {
  const answer = y.hostApi.cancelRun(runId)
  await y.clock.turn()
  await answer
}

/** Time passes, and everybody who is there says so. */
async function pass(y: Fleet, hands: readonly Hand[], ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 15_000) {
    await y.clock.advance(15_000)
    for (const hand of hands) await hand.beat()
  }
}

test(`memory is flat over ${CYCLES} runs and as many lines`, async () => {
  const seed = firstSeed(1)
  const random = new Random(seed)
  const y = await fleet()
  y.hostApi.onPush(() => {})
  const hands = ['anvil', 'hammer', 'tongs'].map((name) => new Hand(y, name))
  for (const hand of hands) await hand.register()
  await pass(y, hands, A_WHILE_MS)
  const census = (): Record<string, number> => ({
    run: 0,
    lease: 0,
    ...y.host.countInMemory(),
    timers: y.clock.timers,
  })
  const before = census()
  expect(before).toMatchObject({ worker: 3, connection: 3, connections: 3, monotonicTimers: 3, deadlines: 0 })

  for (let n = 0; n < CYCLES; n++) {
    await cycle(y, hands, n, random)
    // A line that says nothing, and one that says nonsense.
    new Hand(y, 'silent').connect()
    const stranger = new Hand(y, 'stranger')
    stranger.connect()
    await stranger.say({ type: 'nonsense' })
    await pass(y, hands, 15_000)
  }
  // What is still held is denied, what still waits is cancelled.
  for (const hand of hands) hand.held.clear()
  await pass(y, hands, 15_000)
  for (let round = 0; round < 10; round++) {
    const open = y.hostApi.runs({ status: ['queued', 'preparing', 'running', 'finalizing'], limit: 500 })
    for (const { id } of open.ok ? open.value.runs : []) await cancelled(y, id)
    for (const hand of hands) hand.held.clear()
    await pass(y, hands, 60_000)
  }
  await pass(y, hands, A_WHILE_MS)

  expect(y.store.database.runs.count()).toBe(CYCLES)
  expect(y.store.database.runs.count('completed')).toBeGreaterThan(CYCLES / 4)
  const { journalPages, ...after } = census()
  const { journalPages: _, ...was } = before
  expect({ seed, ...after }).toEqual({ seed, ...was })
  // These are kept on purpose, up to a bound.
  expect(journalPages).toBeLessThanOrEqual(CYCLES)
  // On disk: nothing of lives that are over.
  expect([...y.store.database.snapshots.all('run')]).toEqual([])
  expect([...y.store.database.snapshots.all('lease')]).toEqual([])
  expect([...y.store.database.keyValues.all('mark')]).toEqual([])
  expect(y.log.lines.filter(({ level }) => level === 'error')).toEqual([])
}, 240_000)

test('pages of the journal are kept for a while, and never more than a bounded number', async () => {
  const journal = new RunEventLog({
    events: { nextIndex: () => 0 },
    requestCommit: () => {},
    publish: () => {},
  })
  let most = 0
  for (let run = 0; run < 20_000; run++) {
    journal.appendText(`run-${run}`, T, 'hello')
    journal.contribute()?.onCommitted()
    most = Math.max(most, journal.size)
  }
  expect(most).toBeLessThanOrEqual(4_097)
})
