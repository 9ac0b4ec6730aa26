/**
 * The window on a run's log, against a model of a host whose answers come late or break off, and whose pushes are lost
 * with the connection: the window shows every event once, in order.
 */
import { expect, test } from '@jest/globals'
import type { EventRange } from '../../../client/run-events.ts'
import type { IndexRange, RunLogSource, RunLogState } from '../../../client/run-log.ts'
import { RunLog } from '../../../client/run-log.ts'
import type { DashboardFrame } from '../../../protocol/dashboard.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import { drawSeed, Random } from '../../support/random.ts'
import { until } from '../../support/until.ts'

const SEED = drawSeed()
const ROUNDS = 40

const shows = (isSo: () => boolean) => until('the window shows it', isSo)

const eventAt = (index: number): RunEvent => ({
  runId: 'run-1',
  index,
  at: '2026-01-01T00:00:00.000Z',
  type: 'log',
  stream: 'stdout',
  text: `line ${index}`,
})

class ModelLog implements RunLogSource {
  readonly events: RunEvent[] = []
  requests: EventRange[] = []
  /** Answers so many requests with an error. */
  failures = 0
  /** Answers wait for this. */
  gate: Promise<void> = Promise.resolve()
  #onFrame: ((frame: DashboardFrame) => void) | undefined
  #isConnected = false

  constructor(count: number) {
    for (let index = 0; index < count; index++) this.events.push(eventAt(index))
  }

  async *readEvents(range: EventRange): AsyncGenerator<RunEvent> {
    this.requests.push(range)
    await this.gate
    if (this.failures-- > 0) throw new Error('the host is away')
    const { after = -1, before, tail, limit = 1_000 } = range
    const end = (this.events.at(-1)?.index ?? -1) + 1
    if (tail !== undefined) yield* this.events.filter(({ index }) => index >= end - tail)
    else if (before !== undefined)
      yield* this.events.filter(({ index }) => index < before && index >= before - limit)
    else yield* this.events.filter(({ index }) => index > after).slice(0, limit)
  }

  watch(onFrame: (frame: DashboardFrame) => void): () => void {
    this.#onFrame = onFrame
    this.connect()
    return () => {
      this.#onFrame = undefined
    }
  }

  connect(): void {
    this.#isConnected = true
    const next = (this.events.at(-1)?.index ?? -1) + 1
    queueMicrotask(() => this.#onFrame?.({ type: 'subscribed', runId: 'run-1', next }))
  }

  disconnect(): void {
    this.#isConnected = false
  }

  append(count = 1): void {
    for (let added = 0; added < count; added++) {
      const event = eventAt((this.events.at(-1)?.index ?? -1) + 1)
      this.events.push(event)
      if (this.#isConnected) this.#onFrame?.({ type: 'run-event', event })
    }
  }
}

/** Opens a window and keeps what it delivers. */
function openWindow(host: ModelLog) {
  const seen: number[] = []
  const ranges: IndexRange[] = []
  const states: RunLogState[] = []
  let resets = 0
  const log = new RunLog(host, {
    onEvents: (events, end, range) => {
      const indexes = events.map(({ index }) => index)
      if (end === 'older') seen.unshift(...indexes)
      else seen.push(...indexes)
      ranges.push(range)
    },
    onReset: () => {
      resets++
      seen.length = 0
    },
    onState: (state) => void states.push(state),
  })
  const has = (first: number, count: number) =>
    seen.length === count && seen.every((index, at) => index === first + at)
  return { log, seen, ranges, states, has, resets: () => resets }
}

test('the end comes first, older events on demand, new ones as they come', async () => {
  const host = new ModelLog(2_500)
  const { log, has, states, seen } = openWindow(host)
  await shows(() => has(1_500, 1_000))
  host.append(3)
  await shows(() => has(1_500, 1_003))
  await log.loadOlder()
  expect(has(500, 2_003)).toBe(true)
  expect(states.at(-1)).toEqual({ isRead: true, isReadingOlder: false, older: 500, failure: undefined })
  await log.loadOlder(0)
  expect(has(0, 2_503)).toBe(true)
  await log.loadOlder()
  expect(host.requests).toHaveLength(3)
  log.forgetBefore(2_000)
  expect(states.at(-1)?.older).toBe(2_000)
  seen.splice(0, 2_000)
  await log.loadOlder()
  expect(has(1_000, 1_503)).toBe(true)
  log.close()
})

test('an empty log, and a log that begins to grow', async () => {
  const host = new ModelLog(0)
  const { log, has, states } = openWindow(host)
  await shows(() => states.at(-1)?.isRead === true)
  host.append(2)
  await shows(() => has(0, 2))
  log.close()
})

test('events that the host has lost leave a range without them', async () => {
  const host = new ModelLog(10)
  host.events.splice(4, 3)
  const { log, ranges } = openWindow(host)
  await shows(() => ranges.length === 1)
  expect(ranges).toEqual([{ from: 0, to: 10 }])
  host.append()
  await shows(() => ranges.length === 2)
  expect(ranges[1]).toEqual({ from: 10, to: 11 })
  log.close()
})

test('after a long absence the window begins again at the end', async () => {
  const host = new ModelLog(100)
  const { log, has, resets } = openWindow(host)
  await shows(() => has(0, 100))
  host.disconnect()
  host.append(30_000)
  host.connect()
  await shows(() => has(29_100, 1_000))
  expect(resets()).toBe(1)
  log.close()
})

test('a failure is named, and tried again with the next connection', async () => {
  const host = new ModelLog(5)
  host.failures = 1
  const { log, has, states } = openWindow(host)
  await shows(() => states.some(({ failure }) => failure === 'the host is away'))
  host.connect()
  await shows(() => has(0, 5))
  expect(states.at(-1)?.failure).toBeUndefined()
  host.failures = 1
  await log.loadOlder(0)
  log.close()
})

test('a closed window delivers nothing', async () => {
  const host = new ModelLog(5)
  let open = (): void => {}
  host.gate = new Promise((resolve) => {
    open = resolve
  })
  const { log, seen } = openWindow(host)
  log.close()
  open()
  await new Promise(setImmediate)
  host.append()
  expect(seen).toEqual([])
})

test(`nothing is lost or repeated, seed ${SEED}`, async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const random = new Random(SEED + round)
    const host = new ModelLog(random.below(3_000))
    const { log, has, seen, states } = openWindow(host)
    for (let step = 0; step < 30; step++) {
      if (random.chance(0.2)) host.disconnect()
      if (random.chance(0.3)) host.connect()
      if (random.chance(0.1)) void log.loadOlder()
      host.append(random.below(40))
      if (random.chance(0.5)) await new Promise(setImmediate)
    }
    host.connect()
    const end = host.events.length
    await shows(() => seen.at(-1) === end - 1 && states.at(-1)?.isReadingOlder !== true)
    expect(has(end - seen.length, seen.length)).toBe(true)
    log.close()
  }
})
