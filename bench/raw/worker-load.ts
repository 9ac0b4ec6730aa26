/**
 * Many workers in one process, none of which does any work: the load of all benches of the worker channel.
 *
 * It does what it is told line by line (`Order`), and answers each with a line of JSON. A worker accepts every dispatch
 * at once. What follows waits until there is an order for it, so that who is not being measured holds its runs and
 * rests; a completed run makes room for the next.
 */
import { createConnection, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Wire } from './websocket-client.ts'
import {
  completeFrame,
  eventFrame,
  type Membership,
  type Order,
  type Took,
  type Waits,
  WINDOW_FRAMES,
  WORKER_PATH,
} from './worker-load-protocol.ts'

const HEARTBEAT_MS = 15_000
const RETRY_MS = 20
const SOMETIME = '2036-01-31T12:00:00.000Z'

interface Lease {
  readonly id: string
  readonly runId: string
  readonly hand: Hand
  sent: number
  acked: number
}

/** One worker. */
class Hand {
  readonly port: number
  readonly slots: number
  readonly leases = new Map<string, Lease>()
  wire: Wire | undefined
  membership: Membership | undefined
  gone = (): void => {}
  joined = (_: Membership): void => {}

  constructor(port: number, slots: number) {
    this.port = port
    this.slots = slots
  }

  async join(auth: object): Promise<Membership> {
    const joined = new Promise<Membership>((resolve) => {
      this.joined = resolve
    })
    this.wire = await Wire.open({
      port: this.port,
      path: WORKER_PATH,
      heard: (bytes) => hear(this, bytes),
      drained: () => pump(this),
      closed: () => this.gone(),
    })
    const capabilities = {
      os: 'linux',
      arch: 'x64',
      provider: 'bwrap',
      maxConcurrency: this.slots,
      version: '0.1.0',
    }
    this.say({
      type: 'register',
      protocolVersion: 1,
      auth,
      name: 'worker',
      capabilities,
      activeLeases: this.claims(),
    })
    return joined
  }

  say(frame: object): void {
    this.wire?.send(JSON.stringify(frame))
  }

  claims(): object[] {
    return [...this.leases.values()].map(({ id, runId, sent }) => ({
      id,
      runId,
      expiresAt: SOMETIME,
      lastSeq: sent,
    }))
  }

  beat(): void {
    this.say({
      type: 'heartbeat',
      leases: this.claims(),
      attachSessions: 0,
      sentAt: Math.round(performance.now()),
    })
  }
}

const hands: Hand[] = []
let beating: NodeJS.Timeout | undefined

// ---- what is being done ------------------------------------------------------------------------------------------

/** Runs that may still be completed, and completions that are still to be acknowledged. */
let cycles = { toComplete: 0, toAck: 0, events: 0 }
/** How many frames each lease is to have sent. */
let framesUpTo = 0
let dispatched = (_: Lease): void => {}
let done = (): void => {}

function until(): Promise<void> {
  return new Promise((resolve) => {
    done = resolve
  })
}

const held = (): Lease[] => hands.flatMap(({ leases }) => [...leases.values()])

// ---- hearing -----------------------------------------------------------------------------------------------------

const TYPE_AT = '{"type":"'.length
const ID = /"id":"([^"]+)","runId":"([^"]+)"/

function hear(hand: Hand, bytes: Buffer): void {
  // Told apart by one letter where that is enough: parsing everything would cost more than the server's own work.
  const type = bytes.toString('latin1', TYPE_AT, TYPE_AT + 12)
  if (type.startsWith('dispatch"')) take(hand, bytes)
  else if (type === 'run-complete') acknowledged()
  else if (type.startsWith('lease-ack"')) marks(hand, bytes)
  else if (type.startsWith('registered"')) {
    const { workerId, credential } = JSON.parse(bytes.toString()) as Membership
    hand.membership ??= { workerId, credential }
    hand.joined(hand.membership)
  } else if (!type.startsWith('heartbeat-ac')) throw new Error(`the host says: ${bytes}`)
}

function take(hand: Hand, bytes: Buffer): void {
  const [, id = '', runId = ''] = ID.exec(bytes.toString('latin1', 0, 300)) ?? []
  const lease: Lease = { id, runId, hand, sent: 0, acked: 0 }
  hand.leases.set(id, lease)
  hand.wire?.send(`{"type":"dispatch-accepted","leaseId":"${id}"}`)
  if (cycles.toComplete > 0) complete(lease)
  dispatched(lease)
}

function complete(lease: Lease): void {
  const { hand, id } = lease
  cycles.toComplete -= 1
  for (let event = 0; event < cycles.events; event++) hand.wire?.send(eventFrame(id, ++lease.sent))
  hand.wire?.send(completeFrame(id, ++lease.sent))
  hand.leases.delete(id)
}

function acknowledged(): void {
  cycles.toAck -= 1
  if (cycles.toAck === 0) done()
}

function marks(hand: Hand, bytes: Buffer): void {
  const { leases } = JSON.parse(bytes.toString()) as { leases: { leaseId: string; seq: number }[] }
  for (const { leaseId, seq } of leases) {
    const lease = hand.leases.get(leaseId)
    if (lease !== undefined) lease.acked = seq
  }
  pump(hand)
}

/** As many frames as the window and the line allow. The last acknowledgement is asked for by a heartbeat. */
function pump(hand: Hand): void {
  if (framesUpTo === 0 || hand.wire === undefined) return
  let open = 0
  for (const lease of hand.leases.values()) {
    while (lease.sent < framesUpTo && lease.sent - lease.acked < WINDOW_FRAMES && !hand.wire.behind)
      hand.wire.send(eventFrame(lease.id, ++lease.sent))
    if (lease.acked < framesUpTo) open += 1
    if (lease.sent === framesUpTo && lease.acked < framesUpTo) soon(hand)
  }
  if (open === 0 && held().every(({ acked }) => acked >= framesUpTo)) done()
}

const asking = new Set<Hand>()

function soon(hand: Hand): void {
  if (asking.has(hand)) return
  asking.add(hand)
  setTimeout(() => {
    asking.delete(hand)
    hand.beat()
  }, 1)
}

// ---- orders ------------------------------------------------------------------------------------------------------

async function timed(work: () => Promise<void>): Promise<Took> {
  const [from, cpu] = [performance.now(), process.cpuUsage()]
  await work()
  const { user, system } = process.cpuUsage(cpu)
  return { ms: performance.now() - from, crewMs: (user + system) / 1000 }
}

function obey(order: Order): Promise<unknown> {
  switch (order.do) {
    case 'enroll':
      return enroll(order)
    case 'hold':
      return hold(order.leases)
    case 'cycles':
      return turn(order.count, order.events)
    case 'frames':
      return stream(order.perLease)
    case 'replay':
      return replay(order.frames)
    case 'dispatches':
      return dispatches(order)
    case 'beat':
      return beat(order.everyMs)
  }
}

async function enroll({ port, slots, tokens }: Extract<Order, { do: 'enroll' }>): Promise<Membership[]> {
  const coming = tokens.map(async (token) => {
    const hand = new Hand(port, slots)
    hands.push(hand)
    return hand.join({ kind: 'pairing', token })
  })
  const members = await Promise.all(coming)
  if (beating === undefined) await beat(HEARTBEAT_MS)
  return members
}

/** Spread evenly over the interval, as many workers that came at any time would be. */
async function beat(everyMs: number): Promise<object> {
  clearInterval(beating)
  let next = 0
  const stepMs = Math.max(10, everyMs / Math.max(1, hands.length))
  const perStep = (stepMs * hands.length) / everyMs
  let owed = 0
  beating = setInterval(() => {
    for (owed += perStep; owed >= 1; owed--) hands[next++ % hands.length]?.beat()
  }, stepMs)
  return {}
}

async function hold(leases: number): Promise<object> {
  while (held().length < leases) await sleep(1)
  return {}
}

function turn(count: number, events: number): Promise<Took> {
  return timed(async () => {
    cycles = { toComplete: count, toAck: count, events }
    const all = until()
    for (const lease of held()) if (cycles.toComplete > 0) complete(lease)
    await all
  })
}

async function stream(perLease: number): Promise<Took> {
  const took = await timed(async () => {
    for (const lease of held()) framesUpTo = lease.sent + perLease
    const all = until()
    for (const hand of hands) pump(hand)
    await all
  })
  framesUpTo = 0
  return took
}

async function replay(frames: number): Promise<Took> {
  const [lease] = held()
  const hand = lease?.hand
  if (lease === undefined || hand?.membership === undefined) throw new Error('there is nothing to replay')
  const { workerId, credential } = hand.membership
  const parted = new Promise<void>((resolve) => {
    hand.gone = resolve
  })
  hand.wire?.cut()
  await parted
  await sleep(50)
  lease.sent = frames
  return timed(async () => {
    await hand.join({ kind: 'credential', workerId, secret: credential })
    cycles = { toComplete: 0, toAck: 1, events: 0 }
    const all = until()
    for (let seq = 1; seq < frames; seq++) hand.wire?.send(eventFrame(lease.id, seq))
    hand.wire?.send(completeFrame(lease.id, frames))
    hand.leases.delete(lease.id)
    await all
  })
}

async function dispatches({
  token,
  count,
  tickets,
  restMs,
}: Extract<Order, { do: 'dispatches' }>): Promise<Waits> {
  const [hand] = hands
  if (hand === undefined) throw new Error('there is no worker')
  const door = new Door(hand.port, token)
  const waits: number[] = []
  for (let at = 0; waits.length < count; at++) {
    const arrived = new Promise<Lease>((resolve) => {
      dispatched = resolve
    })
    const from = performance.now()
    const status = door.post(`/api/tickets/T-${at % tickets}/run`)
    const lease = await Promise.race([arrived, status.then((code) => (code === 404 ? undefined : arrived))])
    // The tracker has not been looked at yet.
    if (lease === undefined) await sleep(RETRY_MS)
    else {
      waits.push(performance.now() - from)
      await status
      cycles = { toComplete: 1, toAck: 1, events: 0 }
      const all = until()
      complete(lease)
      await all
      await sleep(restMs)
    }
  }
  dispatched = () => {}
  door.close()
  return { waits }
}

/** One connection to the management door, for one request after the other. */
class Door {
  readonly #socket: Socket
  readonly #token: string
  #answered = (_: number): void => {}
  #text = ''

  constructor(port: number, token: string) {
    this.#token = token
    this.#socket = createConnection({ host: '127.0.0.1', port, noDelay: true })
    this.#socket.setEncoding('latin1').on('data', (text: string) => this.#take(text))
  }

  post(path: string): Promise<number> {
    this.#socket.write(
      `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${this.#token}\r\nContent-Length: 0\r\n\r\n`,
    )
    return new Promise((resolve) => {
      this.#answered = resolve
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  #take(text: string): void {
    this.#text += text
    const end = this.#text.indexOf('\r\n\r\n')
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(this.#text)?.[1] ?? 0)
    if (end < 0 || this.#text.length < end + 4 + length) return
    const status = Number(this.#text.slice(9, 12))
    this.#text = ''
    this.#answered(status)
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await obey(JSON.parse(line) as Order)))
}
process.exit(0)
