/**
 * Following a run's events through a host whose connections break at every moment: nothing is lost or repeated.
 *
 * The host here is a model: it keeps a list of events, answers pages that may break off, and pushes what a socket has
 * subscribed to. Random choices decide when a line is cut, and when the host is away.
 */
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import type {
  ClientConnection,
  ClientReply,
  ClientRequest,
  SocketListener,
} from '../../../client/connection.ts'
import { HostRefusal, HostUnreachable } from '../../../client/errors.ts'
import { type FollowOptions, followRun, readEvents } from '../../../client/run-events.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { drawSeed, Random } from '../../support/random.ts'

const RUN_ID = 'run-1'
const SEED = drawSeed()
const ROUNDS = 60
const STEP_MS = 50

beforeEach(() => void jest.useFakeTimers({ doNotFake: ['queueMicrotask', 'nextTick', 'setImmediate'] }))
afterEach(() => void jest.useRealTimers())

interface ModelSocket {
  readonly listener: SocketListener
  isOpen: boolean
  isSubscribed: boolean
}

class ModelHost implements ClientConnection {
  readonly events: RunEvent[] = []
  status: Run['status'] = 'running'
  isAway = false
  connections = 0
  /** Refuses everything with this status. */
  refusal: number | undefined
  readonly #random: Random
  readonly #sockets = new Set<ModelSocket>()

  constructor(random: Random) {
    this.#random = random
  }

  address() {
    return { url: 'http://host.example', token: 'secret' }
  }

  send = async ({ url }: ClientRequest): Promise<ClientReply> => {
    if (this.isAway) throw new Error('ECONNREFUSED')
    const { pathname, searchParams } = new URL(url)
    if (this.refusal !== undefined) return reply(this.refusal, '{"error":"no such run"}')
    if (!pathname.endsWith('/events')) return reply(200, JSON.stringify(this.#run()))
    const after = Number(searchParams.get('after') ?? -1)
    const text = JSON.stringify(this.events.filter(({ index }) => index > after))
    return reply(200, text, this.#random.chance(0.3) ? this.#random.below(text.length) : undefined)
  }

  dial: ClientConnection['dial'] = (_, __, listener) => {
    const socket: ModelSocket = { listener, isOpen: false, isSubscribed: false }
    setTimeout(() => {
      if (this.isAway) return listener.onEnd({ reason: 'ECONNREFUSED' })
      socket.isOpen = true
      this.connections++
      this.#sockets.add(socket)
      listener.onOpen()
      listener.onText('{"type":"hello"}')
      return undefined
    }, this.#random.below(30))
    return {
      send: (text) => {
        if (socket.isOpen) socket.isSubscribed = JSON.parse(text).type === 'subscribe'
      },
      backlog: () => 0,
      close: () => this.#end(socket),
    }
  }

  append(): void {
    const index = (this.events.at(-1)?.index ?? -1) + 1
    const event: RunEvent = {
      runId: RUN_ID,
      index,
      at: '2026-01-01T00:00:00.000Z',
      type: 'log',
      stream: 'stdout',
      text: `line ${index}`,
    }
    this.events.push(event)
    for (const socket of this.#sockets)
      if (socket.isSubscribed) socket.listener.onText(JSON.stringify({ type: 'run-event', event }))
  }

  end(): void {
    this.status = 'completed'
    for (const { listener } of this.#sockets)
      listener.onText(JSON.stringify({ type: 'run-updated', run: this.#run() }))
  }

  breakLines(): void {
    for (const socket of [...this.#sockets]) this.#end(socket)
  }

  #end(socket: ModelSocket): void {
    if (!this.#sockets.delete(socket)) return
    socket.isOpen = false
    setTimeout(() => socket.listener.onEnd({ reason: 'broken' }), 0)
  }

  #run(): Run {
    // The fields that the client looks at.
    return { id: RUN_ID, status: this.status } as Run
  }
}

function reply(status: number, text: string, endsAt?: number): ClientReply {
  return {
    status,
    header: () => undefined,
    body: (async function* () {
      yield Buffer.from(text.slice(0, endsAt))
      if (endsAt !== undefined) throw new Error('ECONNRESET')
    })(),
  }
}

async function follow(host: ModelHost, options: FollowOptions = {}) {
  const seen: number[] = []
  const reading = followRun(host, RUN_ID, options)
  for (;;) {
    const { done, value } = await reading.next()
    if (done === true) return { seen, run: value }
    seen.push(value.index)
  }
}

/** Lets time pass until the promise has settled. */
async function settle<T>(promise: Promise<T>, eachStep: () => void = () => {}): Promise<T> {
  let isOver = false
  const over = promise.finally(() => {
    isOver = true
  })
  over.catch(() => {})
  while (!isOver) {
    eachStep()
    await jest.advanceTimersByTimeAsync(STEP_MS)
  }
  return await over
}

test('every event arrives once and in order, whatever breaks', async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const random = new Random(SEED + round)
    const host = new ModelHost(random)
    const total = 1 + random.below(200)
    const from = random.chance(0.3) ? random.below(20) : -1
    let wasReached = false
    const misfortune = () => {
      // Before the first connection a host that is away ends the command at once.
      wasReached ||= host.connections > 0
      if (!wasReached) return
      for (let more = random.below(8); more > 0 && host.events.length < total; more--) host.append()
      if (random.chance(0.2)) host.breakLines()
      host.isAway = host.isAway ? random.chance(0.7) : random.chance(0.1)
      if (host.isAway) host.breakLines()
      if (host.events.length === total && host.status === 'running' && random.chance(0.3)) host.end()
    }
    const { seen, run } = await settle(follow(host, { after: from }), misfortune).catch((error) => {
      throw new Error(`SEED=${SEED} round ${round}: ${error}`)
    })
    const expected = host.events.map(({ index }) => index).filter((index) => index > from)
    expect({ seed: SEED + round, seen }).toEqual({ seed: SEED + round, seen: expected })
    expect(run.status).toBe('completed')
  }
})

test('a run that has ended long ago is read to its end', async () => {
  const host = new ModelHost(new Random(SEED))
  for (let count = 0; count < 10; count++) host.append()
  host.status = 'failed'
  expect((await settle(follow(host))).seen).toHaveLength(10)
})

test('a log that lost events on a damaged disk is followed to its end', async () => {
  const host = new ModelHost(new Random(SEED))
  for (let count = 0; count < 10; count++) host.append()
  host.events.splice(3, 4)
  let step = 0
  const following = settle(follow(host), () => {
    step++
    if (step === 30) host.append()
    if (step === 60) host.end()
    if (step > 200) throw new Error('the end was not noticed')
  })
  expect((await following).seen).toEqual([0, 1, 2, 7, 8, 9, 10])
})

test('the last events are asked for by their number', async () => {
  const host = new ModelHost(new Random(SEED))
  const asked: string[] = []
  host.send = async ({ url }) => {
    asked.push(url)
    return reply(200, '[]')
  }
  for await (const event of readEvents(host, RUN_ID, { tail: 5 })) throw new Error(`unexpected ${event.type}`)
  expect(asked).toEqual([`http://host.example/api/runs/${RUN_ID}/events?tail=5`])
})

test('a lost connection and its return are told once each', async () => {
  const host = new ModelHost(new Random(1))
  const reported: string[] = []
  const following = follow(host, {
    onLost: (reason) => reported.push(reason),
    onBack: () => reported.push('back'),
  })
  let step = 0
  await settle(following, () => {
    step++
    host.isAway = step > 4 && step < 40
    if (host.isAway) host.breakLines()
    if (step === 60) host.end()
  })
  expect(reported).toEqual(['no host answers at http://host.example (broken)', 'back'])
})

test('without a host at first, and with a run that nobody knows, it ends with the reason', async () => {
  const host = new ModelHost(new Random(SEED))
  host.refusal = 404
  await expect(settle(follow(host))).rejects.toThrow(HostRefusal)
  host.isAway = true
  await expect(settle(follow(host))).rejects.toThrow(HostUnreachable)
})

test('it ends when it is told to', async () => {
  const host = new ModelHost(new Random(SEED))
  const stop = new AbortController()
  const following = follow(host, { signal: stop.signal })
  setTimeout(() => stop.abort(new Error('stopped by hand')), 500)
  await expect(settle(following)).rejects.toThrow('stopped by hand')
})

test('it ends when it was told to before it began', async () => {
  const host = new ModelHost(new Random(SEED))
  const following = follow(host, { signal: AbortSignal.abort(new Error('stopped before')) })
  await expect(settle(following)).rejects.toThrow('stopped before')
})

test('it ends at once while a page is read, and leaves no timer', async () => {
  const host = new ModelHost(new Random(SEED))
  const stop = new AbortController()
  host.send = ({ signal }) =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  const outcome = follow(host, { signal: stop.signal }).catch((error) => error)
  await jest.advanceTimersByTimeAsync(STEP_MS)
  stop.abort(new Error('stopped by hand'))
  await jest.advanceTimersByTimeAsync(0)
  expect(await outcome).toEqual(new Error('stopped by hand'))
  expect(jest.getTimerCount()).toBe(0)
})

test('it ends at once while it waits to ask again, and leaves no timer', async () => {
  const host = new ModelHost(new Random(SEED))
  const stop = new AbortController()
  host.send = async () => {
    throw new Error('ECONNREFUSED')
  }
  const outcome = follow(host, { signal: stop.signal }).catch((error) => error)
  await jest.advanceTimersByTimeAsync(STEP_MS)
  stop.abort(new Error('stopped by hand'))
  await jest.advanceTimersByTimeAsync(0)
  expect(await outcome).toEqual(new Error('stopped by hand'))
  expect(jest.getTimerCount()).toBe(0)
})

test('a host that goes silent within a page is asked again', async () => {
  const host = new ModelHost(new Random(SEED))
  host.append()
  host.status = 'completed'
  const { send } = host
  let pages = 0
  host.send = async (request) => {
    if (!request.url.includes('/events') || pages++ > 0) return await send(request)
    return { status: 200, header: () => undefined, body: silence(request.signal) }
  }
  expect((await settle(follow(host))).seen).toEqual([0])
})

test('a slow reader of a page loses nothing', async () => {
  const host = new ModelHost(new Random(1))
  const seen: number[] = []
  host.send = async () => ({
    status: 200,
    header: () => undefined,
    body: (async function* () {
      yield Buffer.from('[{"index":0}')
      yield Buffer.from(',{"index":1}]')
    })(),
  })
  const read = async () => {
    for await (const { index } of readEvents(host, RUN_ID)) {
      seen.push(index)
      await new Promise((resolve) => setTimeout(resolve, 10 * 60_000))
    }
  }
  const reading = read()
  for (let minutes = 0; minutes < 30; minutes++) await jest.advanceTimersByTimeAsync(60_000)
  await reading
  expect(seen).toEqual([0, 1])
})

/** A body whose parts never come. */
async function* silence(signal: AbortSignal): AsyncGenerator<Uint8Array> {
  yield Buffer.from('[')
  await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
}
