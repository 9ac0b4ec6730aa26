/**
 * FuzzedWorker registers validly and then sends frames that are drawn from their schemas, in an order that a worker might
 * choose, some with one part spoiled. It connects again whenever the host has closed its socket.
 */
import { checkHostFrame, type HostFrame } from '../../../protocol/frames.ts'
import { damaged, type Harm } from '../../support/damage.ts'
import { pairingToken } from '../host-conversation.ts'
import type { FuzzedHost } from './fuzzed-host.ts'
import { FuzzedSocket } from './fuzzed-socket.ts'
import { WorkerFrames } from './worker-frames.ts'

/** A frame that the host refuses ends the connection, so few are broken. */
const BROKEN_SHARE = 0.15
const BROKEN_REGISTER_SHARE = 0.3
/** The host is asked so rarely whether it has read the frames, because asking takes longer than a frame. */
const CATCH_UP_EVERY = 8

export class FuzzedWorker {
  /** Present from its first registration until the host no longer knows it. */
  identity: { readonly workerId: string; readonly credential: string } | undefined
  readonly #host: FuzzedHost
  readonly #frames: WorkerFrames
  #socket: FuzzedSocket | undefined
  #isRegistered = false
  /** The frames that were sent since the host was asked. */
  readonly #unread: Harm[] = []

  constructor(host: FuzzedHost) {
    this.#host = host
    this.#frames = new WorkerFrames(host.random)
  }

  /** The runs whose sandboxes are resumed here. */
  get resumedRuns(): ReadonlySet<string> {
    return this.#frames.resumedRuns
  }

  /** Sends one frame: the registration of a new connection, or one that may follow. */
  async send(): Promise<void> {
    if (this.#socket === undefined || this.#socket.isClosed || !this.#isRegistered) return this.#register()
    const harm = this.#host.drawHarm(BROKEN_SHARE)
    const drawn = this.#frames.draw(this.#frames.nextType())
    this.#socket.send(damaged(this.#host.random, drawn, harm))
    this.#unread.push(harm)
    if (harm === 'broken' || this.#unread.length >= CATCH_UP_EVERY) await this.catchUp()
  }

  /** Boots whatever sandbox is asked for, without any damage. */
  async bootAll(): Promise<void> {
    await this.catchUp()
    while (this.#frames.hasBoots)
      this.#socket?.send(damaged(this.#host.random, this.#frames.draw('sandbox-ready'), 'none'))
    await this.catchUp()
  }

  async catchUp(): Promise<void> {
    const received = this.#host.receivedFrames()
    await this.#socket?.catchUp()
    // The first frame that is refused is the last one that is read.
    const reached = this.#host.receivedFrames() - received
    for (const [index, harm] of this.#unread.splice(0).entries())
      this.#host.shares.add('frame', harm, index < reached)
    for (const frame of this.#socket?.newFrames() ?? []) {
      this.#host.checkFrame(checkHostFrame, frame)
      // The answer has the form that was checked, or the test fails.
      this.#onFrame(frame as unknown as HostFrame)
    }
  }

  async leave(): Promise<void> {
    await this.#socket?.leave()
    this.#socket = undefined
    this.#isRegistered = false
    this.#frames.onDisconnected()
  }

  // ---- registering -------------------------------------------------------------------------------------------------

  async #register(): Promise<void> {
    await this.leave()
    const socket = new FuzzedSocket(this.#host, '/ws/worker')
    this.#socket = socket
    await socket.open()
    const harm = this.#host.drawHarm(BROKEN_REGISTER_SHARE)
    const drawn = this.#frames.drawRegister(this.#auth())
    socket.send(damaged(this.#host.random, drawn, harm))
    await this.catchUp()
    this.#host.shares.add('register', harm, this.#isRegistered)
  }

  #auth(): Record<string, string> {
    return this.identity === undefined
      ? { kind: 'pairing', token: pairingToken(this.#host.conversation) }
      : { kind: 'credential', workerId: this.identity.workerId, secret: this.identity.credential }
  }

  // ---- frames of the host ------------------------------------------------------------------------------------------

  #onFrame(frame: HostFrame): void {
    this.#frames.onFrame(frame)
    if (frame.type === 'registered') this.#onRegistered(frame.workerId, frame.credential)
    else if (frame.type === 'revoked') this.#forget()
    else if (frame.type === 'rejected' && frame.code === 'unauthorized') this.#forget()
  }

  #onRegistered(workerId: string, credential: string | undefined): void {
    this.#isRegistered = true
    if (credential !== undefined) this.identity = { workerId, credential }
  }

  #forget(): void {
    this.identity = undefined
    this.#frames.forget()
  }
}
