/**
 * What is typed, on its way to a terminal's command: in order, whenever the command reads.
 *
 * Written here and not by a stream: the kernel takes nothing while a command does not read, and Node's own writer for
 * terminals would then ask again and again without doing anything else, such as reading what the command prints.
 */
import { writeSync } from 'node:fs'
import type { Socket } from 'node:net'
import { constants } from 'node:os'

/** Nobody says when the kernel takes more. */
const RETRY_MS = 4
/** Typed, or pasted, and not yet read by the command: beyond it nothing more is taken in. */
const PENDING_BYTES_MAX = 128 * 1024

export class TerminalInput {
  readonly #fd: number
  readonly #from: Socket
  #pending: Buffer[] = []
  #pendingBytes = 0
  #isRetrying = false

  constructor(fd: number, from: Socket) {
    this.#fd = fd
    this.#from = from
  }

  add(bytes: Buffer): void {
    if (bytes.length === 0) return
    this.#pending.push(bytes)
    this.#pendingBytes += bytes.length
    if (!this.#isRetrying) this.#write()
    if (this.#pendingBytes > PENDING_BYTES_MAX) this.#from.pause()
  }

  #write(): void {
    this.#isRetrying = false
    for (let bytes = this.#pending[0]; bytes !== undefined; bytes = this.#pending[0]) {
      const written = this.#writeSome(bytes)
      this.#pendingBytes -= written
      if (written === bytes.length) this.#pending.shift()
      else this.#pending[0] = bytes.subarray(written)
      if (written < bytes.length) break
    }
    if (this.#pendingBytes <= PENDING_BYTES_MAX / 2) this.#from.resume()
    if (this.#pendingBytes > 0) this.#scheduleRetry()
  }

  /** How many the kernel took. */
  #writeSome(bytes: Buffer): number {
    try {
      return writeSync(this.#fd, bytes)
    } catch (error) {
      const { errno } = error as NodeJS.ErrnoException
      // Anything else: nobody is at the other end any more, and it goes nowhere.
      return errno === -constants.errno.EAGAIN ? 0 : bytes.length
    }
  }

  #scheduleRetry(): void {
    this.#isRetrying = true
    setTimeout(() => this.#write(), RETRY_MS)
  }
}
