/**
 * The production doors around one host in memory, and real connections to them.
 *
 * What a worker says leaves in the order in which the test said it, over all wires: each errand is followed by a ping,
 * and its pong says that the host has read what was sent before. What the host said is kept in the order in which it
 * said it, and what arrives is handed on in that order too, for between two connections there is none of its own. A
 * round is over when everything said has arrived, so nobody sleeps, and a frame that the doors lose ends the test.
 */
import { createConnection, type Socket } from 'node:net'
import type { FrontDesk, WorkerLine, WorkerLink } from '../../actors/api/host-api.ts'
import type { Log } from '../../core/ports.ts'
import type { Result } from '../../core/result.ts'
import { routes } from '../../protocol/routes.ts'
import { type Doors, openDoors } from '../../transport/server.ts'
import { promisesSettled } from '../support/manual-clock.ts'
import { clientFrame } from '../support/socket-client.ts'
import { afterwards, partsFor } from '../support/test-resources.ts'

/** So many rounds in which nothing new came, and something is still on its way. */
const ROUNDS_MAX = 2_000

const TEXT = 1
const CLOSE = 8
const PING = 9
const PONG = 10

/** What a test's wire is told by its connection. */
export interface WireEars {
  heard(text: string): void
  closed(code: number, reason: string): void
}

/** What a test's wire may do with its connection. */
export interface WireMouth {
  receive(text: string): void
  /** Breaks the connection without a word. */
  closed(): void
}

/** The doors of one host, from its start to its end, and everybody who came to them. */
export class SocketHouse {
  /** What the host said and nobody has heard yet, over all lines. */
  #spoken: Line[] = []
  /** How often the host was told anything by its doors. */
  #told = 0
  #errands: (() => Promise<void>)[] = []
  #lines = new Set<Line>()
  #opening: Line | undefined
  #doors: Doors | undefined
  #closing: Promise<void> | undefined
  #dead = false

  static async open(desk: FrontDesk, log: Log): Promise<SocketHouse> {
    const house = new SocketHouse()
    const workerConnected = (link: WorkerLink) => house.#connected(desk, link)
    const opened = await openDoors(partsFor({ ...desk, workerConnected }, { log }))
    if (!opened.ok) throw new Error(opened.refusal.message)
    house.#doors = opened.value
    afterwards(() => house.kill())
    return house
  }

  dial(ears: WireEars): WireMouth {
    const line = new Line(ears)
    this.#lines.add(line)
    this.#errands.push(() => this.#open(line))
    return {
      receive: (text) => void this.#errands.push(() => line.say(text)),
      closed: () => void this.#errands.push(() => line.break()),
    }
  }

  /** Does what is to be done and turns the host's clock, until nobody has anything more to say. */
  async settle(turn: () => Promise<void>): Promise<void> {
    for (let idle = 0; idle < ROUNDS_MAX; idle++) {
      for (const errand of this.#errands.splice(0)) await errand()
      const told = this.#told
      await turn()
      await this.#closing
      if (this.#dead) return
      if (this.#spoken.length > 0) await Promise.all([...new Set(this.#spoken)].map((line) => line.reached()))
      const brought = this.#deliver()
      if (brought) idle = 0
      if (!brought && this.#spoken.length + this.#errands.length === 0 && this.#told === told) return
    }
    throw new Error(`said by the host and never arrived: ${this.#spoken.length} frames`)
  }

  /** As the host wishes it: with a goodbye for everybody. */
  close(reason: string): Promise<void> {
    this.#closing ??= this.#doors?.close(reason) ?? Promise.resolve()
    return this.#closing
  }

  /** Nothing of it is heard, or hears, any more. */
  async kill(): Promise<void> {
    this.#dead = true
    this.#errands = []
    for (const line of this.#lines) line.abandon()
    await this.close('killed')
  }

  #connected(desk: FrontDesk, link: WorkerLink): Result<WorkerLine> {
    const line = this.#opening
    if (line === undefined) throw new Error('nobody is connecting')
    let over = false
    const spoke = (): void => void this.#spoken.push(line)
    const joined = desk.workerConnected({
      address: link.address,
      send: (text) => {
        const taken = !over && link.send(text)
        if (taken) spoke()
        return taken
      },
      close: (code, reason) => {
        if (over) return
        over = true
        spoke()
        link.close(code, reason)
      },
    })
    if (!joined.ok) return joined
    const tell = (does: () => void): void => {
      this.#told += 1
      if (!this.#dead) does()
    }
    const { value } = joined
    return {
      ok: true,
      value: {
        receive: (text) => tell(() => value.receive(text)),
        unreadable: (reason) => tell(() => value.unreadable(reason)),
        closed: () => {
          over = true
          tell(() => value.closed())
          line.hostKnows()
        },
        frameBytesMax: () => value.frameBytesMax(),
      },
    }
  }

  async #open(line: Line): Promise<void> {
    this.#opening = line
    await line.open(this.#doors?.fleetPort ?? 0)
    this.#opening = undefined
    this.#told += 1
    // The doors may have sent it away at once.
    await line.reached()
  }

  /** In the order in which it was said, as far as it has arrived. */
  #deliver(): boolean {
    let brought = false
    while (this.#spoken[0]?.next()) {
      this.#spoken.shift()
      brought = true
    }
    // A goodbye of the doors themselves is none of the host's words.
    for (const line of this.#lines) {
      if (this.#spoken.includes(line)) continue
      while (line.arrived > 0 && line.next()) brought = true
      if (line.gone) this.#lines.delete(line)
    }
    return brought
  }
}

/** One connection, as its client sees it. */
class Line {
  readonly #ears: WireEars
  /** Arrived, and not heard yet: it waits for what was said before it on other lines. */
  readonly #news: (() => void)[] = []
  readonly #pongs: (() => void)[] = []
  #socket: Socket | undefined
  #rest: Buffer = Buffer.alloc(0)
  #lost = false
  /** Nothing more will arrive. */
  #ended = false
  #known: () => void = () => {}
  readonly #left: Promise<void>

  constructor(ears: WireEars) {
    this.#ears = ears
    this.#left = new Promise((resolve) => {
      this.#known = resolve
    })
  }

  get arrived(): number {
    return this.#news.length
  }

  get gone(): boolean {
    return this.#lost || (this.#ended && this.#news.length === 0)
  }

  /** The next that arrived is heard. What was said to a line that is gone counts as heard: nobody ever will. */
  next(): boolean {
    const news = this.#news.shift()
    if (!this.#lost) news?.()
    return news !== undefined || this.gone
  }

  open(port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = createConnection({ host: '127.0.0.1', port, noDelay: true })
      this.#socket = socket
      let head = Buffer.alloc(0)
      const shake = (bytes: Buffer): void => {
        head = Buffer.concat([head, bytes])
        const end = head.indexOf('\r\n\r\n')
        if (end < 0) return
        socket.off('data', shake)
        const status = head.toString('latin1', 0, head.indexOf('\r\n'))
        if (!status.startsWith('HTTP/1.1 101 ')) reject(new Error(`no socket: ${status}`))
        socket.on('data', (chunk) => this.#take(chunk))
        this.#take(head.subarray(end + 4))
        resolve()
      }
      socket.on('data', shake)
      socket.on('error', () => {})
      socket.on('close', () => {
        reject(new Error('the doors hung up'))
        this.#end(1006, '')
      })
      socket.write(HELLO)
    })
  }

  async say(text: string): Promise<void> {
    if (this.#ended || this.#lost) return
    this.#socket?.write(clientFrame(TEXT, text))
    await this.reached()
  }

  /** Once the host has read everything that was sent, and what it said before that is here. */
  async reached(): Promise<void> {
    // What the host says in one breath leaves at the breath's end.
    await promisesSettled()
    if (this.#ended || this.#lost) return
    await new Promise<void>((resolve) => {
      this.#pongs.push(resolve)
      this.#socket?.write(clientFrame(PING, ''))
    })
  }

  /** Once the host has noticed. */
  async break(): Promise<void> {
    if (this.#ended || this.#lost) return
    this.abandon()
    await this.#left
  }

  abandon(): void {
    this.#lost = true
    this.#socket?.destroy()
  }

  hostKnows(): void {
    this.#known()
  }

  #end(code: number, reason: string): void {
    if (this.#ended) return
    this.#ended = true
    this.#news.push(() => this.#ears.closed(code, reason))
    for (const go of this.#pongs.splice(0)) go()
  }

  #take(chunk: Buffer): void {
    const bytes = Buffer.concat([this.#rest, chunk])
    let at = 0
    for (;;) {
      const frame = frameAt(bytes, at)
      if (frame === undefined) break
      at = frame.end
      this.#frame(frame.opcode, frame.payload)
    }
    this.#rest = bytes.subarray(at)
  }

  #frame(opcode: number, payload: Buffer): void {
    if (opcode === TEXT) {
      const text = payload.toString()
      this.#news.push(() => this.#ears.heard(text))
    } else if (opcode === PONG) this.#pongs.shift()?.()
    else if (opcode === PING) this.#socket?.write(clientFrame(PONG, payload))
    else if (opcode === CLOSE) {
      const code = payload.length < 2 ? 1005 : payload.readUInt16BE(0)
      this.#end(code, payload.toString('utf8', 2))
      this.#socket?.destroy()
    }
  }
}

const HELLO = [
  `GET ${routes.workerSocket.path} HTTP/1.1`,
  'Host: 127.0.0.1',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  '\r\n',
].join('\r\n')

function frameAt(
  bytes: Buffer,
  at: number,
): { readonly opcode: number; readonly payload: Buffer; readonly end: number } | undefined {
  if (bytes.length - at < 2) return undefined
  const short = (bytes[at + 1] ?? 0) & 0x7f
  const from = at + (short < 126 ? 2 : short === 126 ? 4 : 10)
  if (bytes.length < from) return undefined
  const length = short < 126 ? short : short === 126 ? bytes.readUInt16BE(at + 2) : bytes.readUInt32BE(at + 6)
  const end = from + length
  if (bytes.length < end) return undefined
  return { opcode: (bytes[at] ?? 0) & 0x0f, payload: bytes.subarray(from, end), end }
}
