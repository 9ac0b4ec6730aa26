/**
 * Writes typed input to a terminal's command, in order, as fast as the command reads.
 *
 * This class replaces Node's tty stream: while the command does not read, the kernel accepts nothing, and Node's stream
 * would retry in a busy loop that blocks everything else, such as reading the command's output.
 */
import { writeSync } from 'node:fs'
import type { Socket } from 'node:net'
import { constants } from 'node:os'

/** The kernel does not signal when it accepts input again, so writes are retried. */
const RETRY_MS = 4
/** Input that the command has not read yet; above this limit, reading from the worker pauses. */
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

  /** Returns how many bytes the kernel accepted. */
  #writeSome(bytes: Buffer): number {
    try {
      return writeSync(this.#fd, bytes)
    } catch (error) {
      const { errno } = error as NodeJS.ErrnoException
      // Any other error means that the terminal is closed; drop the bytes.
      return errno === -constants.errno.EAGAIN ? 0 : bytes.length
    }
  }

  #scheduleRetry(): void {
    this.#isRetrying = true
    setTimeout(() => this.#write(), RETRY_MS)
  }
}
