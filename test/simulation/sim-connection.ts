/**
 * SimConnection is one connection between a worker and the host; NetworkLink is the network between their machines.
 *
 * A connection keeps frames in order in each direction. When it breaks, it loses the last frames in flight, and
 * each end learns of it soon, late or never. A link may be silent in one or both directions (frames then arrive
 * later, if the connection still stands) or slow. A hostile link also repeats, reorders, drops and invents frames,
 * as no real connection does.
 */
import type { WorkerReceiver, WorkerSender } from '../../core/ports/connections.ts'
import type { HostFrame, WorkerFrame } from '../../protocol/frames.ts'
import { addUnknownKeys, UNKNOWN_FRAME } from '../support/later-version.ts'
import type { Random } from '../support/random.ts'
import type { Process, ScheduledStep, Timeline } from './timeline.ts'

/** Frames a slow reader may lag behind before the host disconnects: reduced so that it happens in a simulation. */
const BACKLOG_FRAMES_MAX = 200

/** The network between one worker's machine and the host; it outlives connections. */
export interface NetworkLink {
  readonly worker: string
  readonly latencyMs: number
  silentToHostUntil: number
  silentToWorkerUntil: number
  slowUntil: number
  slowMsMax: number
  hostileUntil: number
  /** Probability that a frame is affected while the link is hostile. */
  hostileShare: number
  /** When the host last accepted or closed a connection over this link. */
  changedAt: number
  /** Whether the link invents frames, which makes the host disconnect again and again. */
  inventsFrames: boolean
  /** Whether both ends are of a later version, which adds keys and frame types. */
  readonly addsKeys: boolean
}

export const createLink = (worker: string, latencyMs: number, addsKeys: boolean): NetworkLink => ({
  worker,
  latencyMs,
  silentToHostUntil: 0,
  silentToWorkerUntil: 0,
  slowUntil: 0,
  slowMsMax: 0,
  hostileUntil: 0,
  hostileShare: 0,
  changedAt: 0,
  inventsFrames: false,
  addsKeys,
})

/** The worker's end of a connection. */
export interface SimConnectionListener {
  onOpen(): void
  onFrame(frame: HostFrame, text: string): void
  /** A frame of an unknown type arrived. */
  onUnknownFrame?(text: string): void
  onClose(): void
}

export interface SimConnectionObserver {
  onWorkerSends(connection: SimConnection, frame: WorkerFrame): void
  onHostSends(connection: SimConnection, frame: HostFrame, text: string): void
  onHostReceives(connection: SimConnection, frame: WorkerFrame | undefined, text: string): void
  onWorkerReceives(connection: SimConnection, frame: HostFrame): void
  /** The host rejected or closed the connection, or learned that it broke. */
  onHostClosed(connection: SimConnection): void
}

export interface SimConnectionOptions {
  readonly number: number
  readonly time: Timeline
  readonly link: NetworkLink
  readonly random: Random
  readonly observer: SimConnectionObserver
  readonly worker: Process
  readonly listener: SimConnectionListener
  /** Whether the caller is not the worker itself but a process with its credential. */
  readonly isImpostor: boolean
  /** Offers the connection to the host; undefined when the host does not answer. */
  readonly accept: (
    link: WorkerSender,
  ) => { readonly host: Process; readonly end: WorkerReceiver | undefined } | undefined
}

interface FrameInFlight {
  readonly delivery: ScheduledStep
}

export class SimConnection {
  readonly number: number
  readonly #options: SimConnectionOptions
  #host: Process | undefined
  #receiver: WorkerReceiver | undefined
  #hostOpen = false
  #workerOpen = true
  #broken = false
  #lastToHostAt = 0
  #lastToWorkerAt = 0
  #toHost: FrameInFlight[] = []
  #toWorker: FrameInFlight[] = []

  constructor(options: SimConnectionOptions) {
    this.number = options.number
    this.#options = options
  }

  get worker(): string {
    return this.#options.link.worker
  }

  /** The process that called: a crash of the worker creates a new one. */
  get caller(): Process {
    return this.#options.worker
  }

  /** The host that accepted the connection. */
  get host(): Process | undefined {
    return this.#host
  }

  /** Whether the host considers the connection open. */
  get hostOpen(): boolean {
    return this.#hostOpen
  }

  get broken(): boolean {
    return this.#broken
  }

  /** Opens the connection; the listener hears nothing until the host accepts or refuses it. */
  dial(): void {
    const { time } = this.#options
    time.at(this.#arrivalTime('to host'), () => this.#reachHost())
  }

  #reachHost(): void {
    const { accept, time, listener, worker } = this.#options
    if (worker.dead || !this.#workerOpen || this.#broken) return
    const accepted = accept({
      address: `10.0.0.${this.number % 250}`,
      send: (text) => this.#sendToWorker(text),
      close: () => this.#hostCloses(),
    })
    if (accepted?.end === undefined) {
      time.at(this.#arrivalTime('to worker'), () => this.#closeAtWorker(), worker)
      return
    }
    this.#host = accepted.host
    this.#receiver = accepted.end
    this.#hostOpen = true
    time.at(this.#arrivalTime('to worker'), () => this.#workerOpen && listener.onOpen(), worker)
  }

  // ---- worker to host --------------------------------------------------------------------------------------------

  sendToHost(frame: WorkerFrame, text = JSON.stringify(frame)): void {
    this.#options.observer.onWorkerSends(this, frame)
    this.#transmitToHost(frame, text)
    if (!this.#isHostile()) return
    const { random, link } = this.#options
    if (random.chance(0.4)) this.#transmitToHost(frame, text)
    else if (link.inventsFrames && random.chance(0.3)) this.#transmitToHost(undefined, random.pick(GARBAGE))
  }

  #transmitToHost(frame: WorkerFrame | undefined, text: string): void {
    const { time, random, observer, link } = this.#options
    if (!this.#workerOpen || this.#broken || this.#host === undefined) return
    const hostile = this.#isHostile()
    if (hostile && random.chance(0.5)) return
    const at = hostile ? time.now + random.fraction() * 5_000 : this.#arrivalTime('to host')
    const deliver = () => {
      removeFrame(this.#toHost, inFlight)
      if (!this.#hostOpen) return
      observer.onHostReceives(this, frame, text)
      if (frame === undefined || !link.addsKeys) this.#receiver?.onText(text)
      else this.#receiver?.onText(addUnknownKeys(text))
      // An unknown type is accepted only after `register`, which a hostile link may lose.
      if (link.addsKeys && frame?.type !== 'register' && !hostile) this.#receiver?.onText(UNKNOWN_FRAME)
    }
    const inFlight = { delivery: time.at(at, deliver, this.#host) }
    this.#toHost.push(inFlight)
  }

  /** The worker closes the connection, or dies and its machine closes it. */
  workerCloses(): void {
    if (!this.#workerOpen) return
    this.#workerOpen = false
    if (!this.#broken) this.#scheduleHostClose(this.#arrivalTime('to host'))
  }

  // ---- host to worker --------------------------------------------------------------------------------------------

  #sendToWorker(text: string): boolean {
    const { observer } = this.#options
    if (this.#host?.dead !== false || !this.#hostOpen) return false
    // The laws validate this frame against the protocol.
    const frame = JSON.parse(text) as HostFrame
    if (this.#toWorker.length >= BACKLOG_FRAMES_MAX) {
      this.break(0, 0, 0, 0)
      return false
    }
    observer.onHostSends(this, frame, text)
    this.#transmitToWorker(frame, text)
    if (this.#isHostile() && this.#options.random.chance(0.4)) this.#transmitToWorker(frame, text)
    return true
  }

  #transmitToWorker(frame: HostFrame, text: string): void {
    const { time, random, observer, worker, listener, isImpostor, link } = this.#options
    if (this.#broken) return
    const hostile = this.#isHostile()
    if (hostile && random.chance(0.5)) return
    const at = hostile ? time.now + random.fraction() * 5_000 : this.#arrivalTime('to worker')
    const deliver = () => {
      removeFrame(this.#toWorker, inFlight)
      if (!this.#workerOpen) return
      if (!isImpostor) observer.onWorkerReceives(this, frame)
      listener.onFrame(frame, link.addsKeys ? addUnknownKeys(text) : text)
      if (link.addsKeys && this.#workerOpen) listener.onUnknownFrame?.(UNKNOWN_FRAME)
    }
    const inFlight = { delivery: time.at(at, deliver, worker) }
    this.#toWorker.push(inFlight)
  }

  #hostCloses(): void {
    if (this.#host?.dead !== false || !this.#hostOpen) return
    const { time, worker } = this.#options
    this.#closeAtHost()
    if (!this.#broken) time.at(this.#arrivalTime('to worker'), () => this.#closeAtWorker(), worker)
  }

  // ---- closing ---------------------------------------------------------------------------------------------------

  /**
   * Breaks the connection; a part of the frames in flight is lost.
   * @param lostUp share of the frames to the host, from 0 to 1
   * @param hostMs delay until the host learns of it; undefined: never
   */
  break(lostUp: number, lostDown: number, hostMs: number | undefined, workerMs: number | undefined): void {
    if (this.#broken) return
    this.#broken = true
    const { time, worker } = this.#options
    const hostAt = loseLast(this.#toHost, lostUp, time.now)
    const workerAt = loseLast(this.#toWorker, lostDown, time.now)
    if (hostMs !== undefined) this.#scheduleHostClose(Math.max(hostAt, time.now + hostMs))
    if (workerMs !== undefined) {
      time.at(Math.max(workerAt, time.now + workerMs), () => this.#closeAtWorker(), worker)
    }
  }

  #scheduleHostClose(at: number): void {
    if (this.#host === undefined) return
    this.#options.time.at(
      at,
      () => {
        if (this.#hostOpen) this.#closeAtHost()
      },
      this.#host,
    )
  }

  /** The listener reports the close to the host, even when the host closed the connection itself. */
  #closeAtHost(): void {
    this.#hostOpen = false
    this.#options.observer.onHostClosed(this)
    this.#options.time.in(0, () => this.#receiver?.onClosed(), this.#host)
  }

  #closeAtWorker(): void {
    if (!this.#workerOpen) return
    this.#workerOpen = false
    this.#options.listener.onClose()
  }

  // ---- conditions of the link ------------------------------------------------------------------------------------

  #isHostile(): boolean {
    const { link, time, random } = this.#options
    return link.hostileUntil > time.now && random.chance(link.hostileShare)
  }

  /** When a frame sent now arrives: never before an earlier frame in the same direction. */
  #arrivalTime(direction: 'to host' | 'to worker'): number {
    const { link, time, random } = this.#options
    const slow = link.slowUntil > time.now ? link.slowMsMax * random.fraction() : 0
    const silentUntil = direction === 'to host' ? link.silentToHostUntil : link.silentToWorkerUntil
    const last = direction === 'to host' ? this.#lastToHostAt : this.#lastToWorkerAt
    const at = Math.max(
      Math.max(time.now, silentUntil) + link.latencyMs * (0.5 + random.fraction()) + slow,
      last,
    )
    if (direction === 'to host') this.#lastToHostAt = at
    else this.#lastToWorkerAt = at
    return at
  }
}

function removeFrame(frames: FrameInFlight[], inFlight: FrameInFlight): void {
  const at = frames.indexOf(inFlight)
  if (at >= 0) frames.splice(at, 1)
}

/** Cancels the last frames in flight; returns when the last remaining frame arrives. */
function loseLast(frames: readonly FrameInFlight[], lost: number, now: number): number {
  const kept = Math.floor(frames.length * (1 - lost))
  for (const { delivery } of frames.slice(kept)) delivery.run = undefined
  return frames.slice(0, kept).reduce((last, { delivery }) => Math.max(last, delivery.at), now)
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
