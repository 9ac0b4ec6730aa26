/**
 * Random requests and frames: the server never crashes, never hangs and never answers 500.
 *
 * `npm run fuzz` is a long run on both listeners.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { fetch } from 'undici'
import { type Route, routes } from '../../../protocol/routes.ts'
import { createRawClient, requestText } from '../../support/raw-client.ts'
import { type MemoryMib, settledMemory } from '../../support/settled-memory.ts'
import { connectRawSocket, encodeClientFrame } from '../../support/socket-client.ts'
import { testListener } from '../../support/test-listener.ts'
import { closeAfterTest, openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const LISTENER = testListener().name
const ROUNDS = Number(process.env.FUZZ_ROUNDS ?? (LISTENER === 'node' ? 1_500 : 4_000))
/** The time limit of a long run on a busy machine. */
const RUN_MS_MAX = 600_000 + ROUNDS * 20
/** The first requests and sockets fill caches, so the first sample is taken behind them. */
const SAMPLE_SHARE = 0.2
/** Collecting garbage takes as long as hundreds of inputs, so only a long run shows how memory grows in between. */
const EARLY_SAMPLES_MAX = process.env.FUZZ_ROUNDS === undefined ? 1 : 5
/** A long run that kept 100 bytes of each input on the heap, or a kilobyte outside it, would grow by more. */
const GROWTH_MIB_MAX = { heap: 16, rss: 128 }
/** The seed is fixed, so that results are comparable; SEED chooses another. */
const SEED = Number(process.env.SEED ?? 20_261_121)
const CLIENTS = 16
/**
 * The server waits for the rest of an unfinished request, and the parser treats some broken requests (a control character
 * in a header) as unfinished. The test does not wait for their timeout but starts the next one on a new connection.
 */
const PATIENCE_MS = 30
/** Complete requests are answered within this time, even on a busy machine. */
const WHOLE_MS = 60_000

type RandomFraction = () => number

/** mulberry32 */
function createRandom(seed: number): RandomFraction {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

const below = (roll: RandomFraction, n: number): number => Math.floor(roll() * n)
const pick = <T>(roll: RandomFraction, from: readonly T[]): T => from[below(roll, from.length)] as T
const randomText = (roll: RandomFraction, max: number): string =>
  Array.from({ length: below(roll, max) }, () => String.fromCharCode(below(roll, 256))).join('')

const table: readonly Route[] = Object.values(routes)

function randomJson(roll: RandomFraction, depth = 0): unknown {
  const kind = below(roll, depth > 5 ? 5 : 8)
  if (kind === 0) return null
  if (kind === 1) return roll() * 1e6 - 5e5
  if (kind === 2) return roll() < 0.5
  if (kind < 5) return randomText(roll, 12)
  if (kind === 5) return Array.from({ length: below(roll, 5) }, () => randomJson(roll, depth + 1))
  const keys = [
    'patch',
    'server',
    'port',
    'id',
    'name',
    'type',
    'runId',
    '__proto__',
    'constructor',
    randomText(roll, 6),
  ]
  return Object.fromEntries(
    Array.from({ length: below(roll, 5) }, () => [pick(roll, keys), randomJson(roll, depth + 1)]),
  )
}

function target(roll: RandomFraction, route: Route): string {
  const segment = () =>
    pick(roll, [
      'x',
      '7',
      'tracker',
      '%2e%2e',
      '%00',
      '%zz',
      'a%2fb',
      '..',
      randomText(roll, 8).replace(/[\s]/g, ''),
    ])
  const path = roll() < 0.9 ? route.path.replaceAll(/:\w+/g, segment) : `/${segment()}/${segment()}`
  const query = pick(roll, [
    ...Array.from({ length: 8 }, () => ''),
    '?',
    '?limit=0',
    '?limit=x&after=-2',
    '?workerId=a&workerId=b',
    `?token=${TOKEN}`,
    '?state=active',
    '?%',
    '?a=%ff',
  ])
  return path + query
}

function validRequest(roll: RandomFraction): string {
  const route = pick(roll, table)
  const body = roll() < 0.3 ? '' : roll() < 0.8 ? JSON.stringify(randomJson(roll)) : randomText(roll, 64)
  const headers = ['Host: localhost', `Authorization: Bearer ${roll() < 0.95 ? TOKEN : 'x'}`]
  if (roll() < 0.9) headers.push('Content-Type: application/json')
  if (roll() < 0.1) headers.push(`X-Noise: ${randomText(roll, 40).replace(/[^\x20-\x7e]/g, '')}`)
  const method = roll() < 0.9 ? route.method : pick(roll, ['GET', 'POST', 'OPTIONS', 'HEAD', 'TRACE', 'FOO'])
  return requestText(method, target(roll, route), headers, unescape(encodeURIComponent(body)))
}

function mutate(roll: RandomFraction, text: string): string {
  let bytes = text
  for (let times = 1 + below(roll, 3); times > 0; times--) {
    const at = below(roll, bytes.length)
    const what = below(roll, 4)
    if (what === 0) bytes = bytes.slice(0, at) + String.fromCharCode(below(roll, 256)) + bytes.slice(at + 1)
    else if (what === 1) bytes = bytes.slice(0, at) + bytes.slice(at + 1 + below(roll, 8))
    else if (what === 2) bytes = bytes.slice(0, at) + randomText(roll, 8) + bytes.slice(at)
    else bytes = bytes.slice(0, at) + bytes.slice(below(roll, bytes.length))
  }
  return bytes
}

function request(roll: RandomFraction): { text: string; whole: boolean } {
  const kind = roll()
  if (kind < 0.6) return { text: validRequest(roll), whole: true }
  if (kind < 0.97) return { text: mutate(roll, validRequest(roll)), whole: false }
  return { text: randomText(roll, 400), whole: false }
}

test(
  `random requests to the ${LISTENER} listener, seed ${SEED}`,
  async () => {
    const { port, url, log } = await openTestServer()
    const roll = createRandom(SEED)
    const statuses = new Map<number | 'silence', number>()
    const wrong: string[] = []
    const memory = watchMemory('requests')
    let left = ROUNDS
    await Promise.all(
      Array.from({ length: CLIENTS }, async () => {
        const client = createRawClient(port)
        closeAfterTest(() => client.close())
        while (left-- > 0) {
          memory.onInput(ROUNDS - left)
          const { text, whole } = request(roll)
          const timeouts = new AbortController()
          const reply = await Promise.race([
            client.ask(text),
            sleep(whole ? WHOLE_MS : PATIENCE_MS, 'silence' as const, { signal: timeouts.signal }).catch(
              () => 'silence' as const,
            ),
          ])
          timeouts.abort()
          const status = reply === 'silence' ? reply : reply.status
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
          if (!whole) client.close()
          const ownFault = typeof status === 'number' && status >= 500 && status !== 505
          if (ownFault || (whole && (status === 'silence' || status === 0)))
            wrong.push(`${status}: ${JSON.stringify(text)}`)
        }
      }),
    )
    process.stdout.write(`${JSON.stringify(Object.fromEntries(statuses))}\n`)
    memory.check()
    expect({ seed: SEED, wrong: wrong.slice(0, 5), log: log.lines.slice(0, 5) }).toEqual({
      seed: SEED,
      wrong: [],
      log: [],
    })
    expect((await fetch(`${url}/api/health`)).status).toBe(200)
  },
  RUN_MS_MAX,
)

/** Compares the memory behind the first inputs with the memory behind all of them. */
function watchMemory(inputs: string) {
  const samples: MemoryMib[] = []
  const sample = (): void => void samples.push(settledMemory())
  return {
    onInput: (number: number): void => {
      if (samples.length < EARLY_SAMPLES_MAX && number >= ROUNDS * SAMPLE_SHARE * (samples.length + 1))
        sample()
    },
    check: (): void => {
      sample()
      const [first, last] = [samples[0], samples.at(-1)]
      const series = samples.map(({ heap, rss }) => `${heap.toFixed(0)}/${rss.toFixed(0)}`).join(' ')
      process.stdout.write(
        `fuzz of the ${LISTENER} listener, seed ${SEED}: ${ROUNDS} ${inputs}; heap/memory in MiB ${series}\n`,
      )
      for (const kind of ['heap', 'rss'] as const)
        expect((last?.[kind] ?? 0) - (first?.[kind] ?? 0)).toBeLessThan(GROWTH_MIB_MAX[kind])
    },
  }
}

function frame(roll: RandomFraction): Buffer {
  const kind = roll()
  if (kind < 0.3)
    return encodeClientFrame(
      1,
      JSON.stringify({ type: pick(roll, ['subscribe', 'unsubscribe']), runId: `run-${below(roll, 9)}` }),
    )
  if (kind < 0.6) return encodeClientFrame(1, JSON.stringify(randomJson(roll)))
  if (kind < 0.8)
    return encodeClientFrame(below(roll, 16), Buffer.from(randomText(roll, 200), 'latin1'), {
      masked: roll() < 0.9,
      bits: below(roll, 16) << 4,
    })
  return Buffer.from(randomText(roll, 300), 'latin1')
}

test.each([
  ['/ws', 'dashboard'],
  ['/ws/worker', 'worker'],
])(
  `frames of nonsense at %s to the ${LISTENER} listener, seed ${SEED}`,
  async (path, kind) => {
    const { port, url, log, hostApi, meters } = await openTestServer()
    const roll = createRandom(SEED + 1)
    const memory = watchMemory(`frames at ${path}`)
    for (let left = Math.ceil(ROUNDS / 100); left > 0; left--) {
      memory.onInput(ROUNDS - left * 100)
      const sockets = await Promise.all(Array.from({ length: 10 }, () => connectRawSocket(port, path)))
      for (const socket of sockets) {
        socket.on('error', () => {})
        socket.resume()
        for (let i = 0; i < 10; i++) socket.write(frame(roll))
      }
      hostApi.push({
        type: 'run-event',
        event: { runId: 'run-1', index: 0, at: '2026-01-31T12:00:00.000Z', type: 'status', to: 'queued' },
      })
      await sleep(1)
      for (const socket of sockets) socket.destroy()
      // The fake host keeps every connection.
      hostApi.workerConnections.length = 0
    }
    memory.check()
    await until(`all are gone, seed ${SEED}`, () => meters.counts.get(`sockets ${kind}`) === 0)
    expect({ seed: SEED, log: log.lines }).toEqual({ seed: SEED, log: [] })
    expect((await fetch(`${url}/api/health`)).status).toBe(200)
  },
  RUN_MS_MAX,
)
