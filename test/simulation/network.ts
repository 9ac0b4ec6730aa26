/**
 * The lines between workers and the host, and what the weather does to them.
 *
 * A connection keeps its frames in order in each direction. It may break, and then loses the end of what was under
 * way; its ends may hear of that soon, late, or never. A worker's line may fall silent in one direction or both (what
 * is said meanwhile arrives afterwards, if the connection still stands), be slow, or, as no real connection does,
 * repeat, reorder, drop and invent single frames.
 */
import type { WorkerReceiver, WorkerSender } from '../../core/connection-ports.ts'
import type { HostFrame, WorkerFrame } from '../../protocol/frames.ts'
import type { Random } from '../support/random.ts'
import type { Happening, Process, Timeline } from './timeline.ts'

/** What a slow reader may be behind before the host cuts the line: scaled down, so that it happens. */
const BACKLOG_FRAMES_MAX = 200

/** The way between one worker's machine and the host; it outlives connections. */
export interface Line {
  readonly worker: string
  readonly latencyMs: number
  silentUpUntil: number
  silentDownUntil: number
  slowUntil: number
  slowMs: number
  hostileUntil: number
  /** How often a frame meets hostility. */
  hostility: number
  /** When a connection over it was taken up or ended, as the host sees it. */
  changedAt: number
  /** Whether frames are invented, too: the host then hangs up again and again. */
  invents: boolean
}

export const newLine = (worker: string, latencyMs: number): Line => ({
  worker,
  latencyMs,
  silentUpUntil: 0,
  silentDownUntil: 0,
  slowUntil: 0,
  slowMs: 0,
  hostileUntil: 0,
  hostility: 0,
  changedAt: 0,
  invents: false,
})

/** What the worker hears. */
export interface WorkerEar {
  opened(): void
  heard(frame: HostFrame, text: string): void
  closed(): void
}

export interface WireWatch {
  hostSends(wire: Wire, frame: HostFrame, text: string): void
  hostHears(wire: Wire, frame: WorkerFrame | undefined, text: string): void
  workerHears(wire: Wire, frame: HostFrame): void
  /** The host rejects or hangs up, or hears that the wire is gone. */
  hostEnds(wire: Wire): void
}

export interface WireParts {
  readonly number: number
  readonly time: Timeline
  readonly line: Line
  readonly random: Random
  readonly watch: WireWatch
  readonly worker: Process
  readonly ear: WorkerEar
  /** Whoever calls is not the worker itself: it only has its credential. */
  readonly rogue: boolean
  /** What the host makes of somebody calling; undefined when nobody answers. */
  readonly call: (
    link: WorkerSender,
  ) => { readonly host: Process; readonly end: WorkerReceiver | undefined } | undefined
}

interface UnderWay {
  readonly happening: Happening
}

export class Wire {
  readonly number: number
  readonly #parts: WireParts
  #host: Process | undefined
  #end: WorkerReceiver | undefined
  #hostOpen = false
  #workerOpen = true
  #broken = false
  #lastUp = 0
  #lastDown = 0
  #up: UnderWay[] = []
  #down: UnderWay[] = []

  constructor(parts: WireParts) {
    this.number = parts.number
    this.#parts = parts
  }

  get worker(): string {
    return this.#parts.line.worker
  }

  /** Which process calls: a worker's crash makes a new one. */
  get caller(): Process {
    return this.#parts.worker
  }

  /** As the host sees it. */
  get hostOpen(): boolean {
    return this.#hostOpen
  }

  get broken(): boolean {
    return this.#broken
  }

  /** Nothing is heard of the call until the host has answered it, or refused. */
  dial(): void {
    const { time } = this.#parts
    time.at(this.#arrival('up'), () => this.#ring())
  }

  #ring(): void {
    const { call, time, ear, worker } = this.#parts
    if (worker.dead || !this.#workerOpen || this.#broken) return
    const answered = call({
      address: `10.0.0.${this.number % 250}`,
      send: (text) => this.#sendDown(text),
      close: () => this.#hostCloses(),
    })
    if (answered?.end === undefined) {
      time.at(this.#arrival('down'), () => this.#workerLoses(), worker)
      return
    }
    this.#host = answered.host
    this.#end = answered.end
    this.#hostOpen = true
    time.at(this.#arrival('down'), () => this.#workerOpen && ear.opened(), worker)
  }

  // ---- worker to host --------------------------------------------------------------------------------------------

  sendUp(frame: WorkerFrame, text = JSON.stringify(frame)): void {
    this.#flyUp(frame, text)
    if (!this.#isHostile()) return
    const { random, line } = this.#parts
    if (random.random(0.4)) this.#flyUp(frame, text)
    else if (line.invents && random.random(0.3)) this.#flyUp(undefined, random.pick(GARBAGE))
  }

  #flyUp(frame: WorkerFrame | undefined, text: string): void {
    const { time, random, watch } = this.#parts
    if (!this.#workerOpen || this.#broken || this.#host === undefined) return
    const hostile = this.#isHostile()
    if (hostile && random.random(0.5)) return
    const at = hostile ? time.now + random.fraction() * 5_000 : this.#arrival('up')
    const deliver = () => {
      settled(this.#up, flight)
      if (!this.#hostOpen) return
      watch.hostHears(this, frame, text)
      this.#end?.onText(text)
    }
    const flight = { happening: time.at(at, deliver, this.#host) }
    this.#up.push(flight)
  }

  /** The worker hangs up, or dies and its machine does so for it. */
  workerCloses(): void {
    if (!this.#workerOpen) return
    this.#workerOpen = false
    if (!this.#broken) this.#hostHearsEnd(this.#arrival('up'))
  }

  // ---- host to worker --------------------------------------------------------------------------------------------

  #sendDown(text: string): boolean {
    const { watch } = this.#parts
    if (this.#host?.dead !== false || !this.#hostOpen) return false
    // What the host sends is what the laws say it is: they check it against the protocol.
    const frame = JSON.parse(text) as HostFrame
    if (this.#down.length >= BACKLOG_FRAMES_MAX) {
      this.break(0, 0, 0, 0)
      return false
    }
    watch.hostSends(this, frame, text)
    this.#flyDown(frame, text)
    if (this.#isHostile() && this.#parts.random.random(0.4)) this.#flyDown(frame, text)
    return true
  }

  #flyDown(frame: HostFrame, text: string): void {
    const { time, random, watch, worker, ear, rogue } = this.#parts
    if (this.#broken) return
    const hostile = this.#isHostile()
    if (hostile && random.random(0.5)) return
    const at = hostile ? time.now + random.fraction() * 5_000 : this.#arrival('down')
    const deliver = () => {
      settled(this.#down, flight)
      if (!this.#workerOpen) return
      if (!rogue) watch.workerHears(this, frame)
      ear.heard(frame, text)
    }
    const flight = { happening: time.at(at, deliver, worker) }
    this.#down.push(flight)
  }

  #hostCloses(): void {
    if (this.#host?.dead !== false || !this.#hostOpen) return
    const { time, worker } = this.#parts
    this.#endHost()
    if (!this.#broken) time.at(this.#arrival('down'), () => this.#workerLoses(), worker)
  }

  // ---- the end of it ---------------------------------------------------------------------------------------------

  /**
   * It breaks. Of what is under way a part is lost; `undefined` is an end that never hears of it.
   * @param lostUp how much, from 0 to 1
   */
  break(lostUp: number, lostDown: number, hostMs: number | undefined, workerMs: number | undefined): void {
    if (this.#broken) return
    this.#broken = true
    const { time, worker } = this.#parts
    const hostAt = lose(this.#up, lostUp, time.now)
    const workerAt = lose(this.#down, lostDown, time.now)
    if (hostMs !== undefined) this.#hostHearsEnd(Math.max(hostAt, time.now + hostMs))
    if (workerMs !== undefined) {
      time.at(Math.max(workerAt, time.now + workerMs), () => this.#workerLoses(), worker)
    }
  }

  #hostHearsEnd(at: number): void {
    if (this.#host === undefined) return
    this.#parts.time.at(
      at,
      () => {
        if (this.#hostOpen) this.#endHost()
      },
      this.#host,
    )
  }

  /** The door tells the host that the wire is gone, also when the host has closed it itself. */
  #endHost(): void {
    this.#hostOpen = false
    this.#parts.watch.hostEnds(this)
    this.#parts.time.in(0, () => this.#end?.onClosed(), this.#host)
  }

  #workerLoses(): void {
    if (!this.#workerOpen) return
    this.#workerOpen = false
    this.#parts.ear.closed()
  }

  // ---- weather ---------------------------------------------------------------------------------------------------

  #isHostile(): boolean {
    const { line, time, random } = this.#parts
    return line.hostileUntil > time.now && random.random(line.hostility)
  }

  /** When what is sent now arrives: never before what was sent earlier in the same direction. */
  #arrival(way: 'up' | 'down'): number {
    const { line, time, random } = this.#parts
    const slow = line.slowUntil > time.now ? line.slowMs * random.fraction() : 0
    const silentUntil = way === 'up' ? line.silentUpUntil : line.silentDownUntil
    const last = way === 'up' ? this.#lastUp : this.#lastDown
    const at = Math.max(
      Math.max(time.now, silentUntil) + line.latencyMs * (0.5 + random.fraction()) + slow,
      last,
    )
    if (way === 'up') this.#lastUp = at
    else this.#lastDown = at
    return at
  }
}

function settled(flights: UnderWay[], flight: UnderWay): void {
  const at = flights.indexOf(flight)
  if (at >= 0) flights.splice(at, 1)
}

/** Cancels the end of what is under way; answers when the last of the rest arrives. */
function lose(flights: readonly UnderWay[], lost: number, now: number): number {
  const kept = Math.floor(flights.length * (1 - lost))
  for (const { happening } of flights.slice(kept)) happening.run = undefined
  return flights.slice(0, kept).reduce((last, { happening }) => Math.max(last, happening.at), now)
}

const GARBAGE = [
  '',
  'null',
  '[]',
  '{"type":"run-event"}',
  '{"type":"what"}',
  '{"type":"run-patch","leaseId":"x","seq":0,"patch":{}}',
  '{"type":"heartbeat","leases":{},"attachSessions":-1}',
  '\u0000\ufffd{',
  '{"type":"register","protocolVersion":1}',
  `{"type":"run-complete","leaseId":"ls-0","seq":1,"outcome":{"status":"completed","costs":[]},"__proto__":{}}`,
]
