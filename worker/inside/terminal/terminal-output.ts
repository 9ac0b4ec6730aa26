/**
 * What a terminal's command prints, on its way to standard output: read no faster than it is taken away.
 *
 * The kernel hands a terminal's output over in small pieces, so what comes shortly after each other goes on together.
 * After the command's end it goes on for as long as something that was printed is still to come, then says how the
 * command ended, and calls it the last.
 */
import { readSync } from 'node:fs'
import { Socket } from 'node:net'
import { ReadStream } from 'node:tty'
import { encodeExit, encodeFrame } from './frames.ts'

const STDOUT = 1
/** A terminal ends when nobody has it any more; something that the command left running may have it for ever. */
const SILENCE_MS = 200
/** And may print for ever. What the command printed is in the kernel by its end, and is read in any case. */
const OUTPUT_AFTER_EXIT_MS_MAX = 1_000
/** More than the kernel keeps of a terminal's output. */
const REST_BYTES_MAX = 256 * 1024
const READ_BYTES = 16 * 1024
/** Handed over and not yet taken away; the command waits from there on. */
const BUFFERED_BYTES_MAX = 128 * 1024
/** Goes on at once, whether or not more comes right behind it. */
const BATCH_BYTES = 16 * 1024
/** So much in that time is a flood: nobody reads along, and each piece of it has its price all the way to the view. */
const FLOOD_BYTES = 256 * 1024
const FLOOD_MS = 100
/** In a flood, what has come waits so long for more. */
const FLOOD_WAIT_MS = 4

export class TerminalOutput {
  readonly #fd: number
  readonly #from: ReadStream
  readonly #to: Socket
  readonly #onFinished: () => void
  #exitCode: number | undefined
  /** What waits to go on together. */
  readonly #batch = Buffer.allocUnsafe(BATCH_BYTES + READ_BYTES)
  #batchBytes = 0
  /** Since when it is counted anew, and what was printed since. */
  #countedSince = 0
  #countedBytes = 0
  #isFlood = false
  #isPaused = false
  #isBatching = false
  #isOver = false
  #silenceTimer: NodeJS.Timeout | undefined

  /** `last`: all is told, or nobody listens. */
  constructor(fd: number, onFinished: () => void) {
    this.#fd = fd
    this.#onFinished = onFinished
    // A stream of its own: Node's process.stdout writes to a pipe while nothing else goes on.
    this.#to = new Socket({ fd: STDOUT, readable: false, writable: true, ...BUFFER_OPTIONS })
    this.#to.on('error', onFinished).on('drain', () => this.#resumeReading())
    this.#from = new ReadStream(
      fd,
      readInto(Buffer.allocUnsafe(READ_BYTES), (bytes) => this.#onBytes(bytes)),
    )
    // The end of a terminal may be an error of input and output; then it was empty, and is closed already.
    this.#from.on('error', () => this.#endOutput()).on('end', () => this.#readRest())
    this.#from.resume()
  }

  /** The command has ended; what it printed last may still be on its way. */
  onCommandExit(code: number): void {
    this.#exitCode = code
    if (this.#isOver) {
      this.#writeExit(code)
      return
    }
    this.#restartSilenceTimer()
    setTimeout(() => this.#readRest(), OUTPUT_AFTER_EXIT_MS_MAX)
  }

  /** It is taken, in any case; what comes after the last is nobody's. */
  #onBytes(bytes: Buffer): true {
    if (this.#isOver) return true
    this.#batchBytes += bytes.copy(this.#batch, this.#batchBytes)
    this.#measureRate(bytes.length)
    if (this.#exitCode !== undefined) this.#restartSilenceTimer()
    if (this.#batchBytes >= BATCH_BYTES) this.#writeBatch()
    else if (!this.#isBatching) this.#waitForMore()
    return true
  }

  /** For as long as more comes in each turn. */
  #waitForMore(): void {
    const before = this.#batchBytes
    this.#isBatching = true
    setImmediate(() => {
      this.#isBatching = false
      if (this.#batchBytes > before) this.#waitForMore()
      else if (this.#isFlood) this.#waitForFlood()
      else this.#writeBatch()
    })
  }

  #waitForFlood(): void {
    this.#isBatching = true
    setTimeout(() => {
      this.#isBatching = false
      this.#writeBatch()
    }, FLOOD_WAIT_MS)
  }

  #writeBatch(): void {
    if (this.#batchBytes === 0 || this.#write(this.#batch.subarray(0, this.#batchBytes)) || this.#isPaused)
      return
    this.#isPaused = true
    this.#from.pause()
  }

  #measureRate(bytes: number): void {
    const forMs = performance.now() - this.#countedSince
    if (forMs >= FLOOD_MS) {
      // It goes on for as long as it was one until just now.
      this.#isFlood = this.#countedBytes >= FLOOD_BYTES && forMs < 2 * FLOOD_MS
      this.#countedSince += forMs
      this.#countedBytes = 0
    }
    this.#countedBytes += bytes
    if (this.#countedBytes >= FLOOD_BYTES) this.#isFlood = true
  }

  /** All that is gathered. A copy: it is gathered in the same place again. */
  #write(bytes: Buffer): boolean {
    this.#batchBytes = 0
    return this.#to.write(encodeFrame('output', bytes))
  }

  #resumeReading(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    this.#from.resume()
  }

  #restartSilenceTimer(): void {
    clearTimeout(this.#silenceTimer)
    this.#silenceTimer = setTimeout(
      () => (this.#isPaused ? this.#restartSilenceTimer() : this.#readRest()),
      SILENCE_MS,
    )
  }

  /**
   * Node takes a terminal that nobody has any more for one that is empty, and this process may itself have been kept
   * waiting; so what the kernel still has is asked for.
   */
  #readRest(): void {
    this.#writeBatch()
    for (let left = REST_BYTES_MAX; left > 0 && !this.#isOver; ) {
      const bytes = readAvailable(this.#fd)
      if (bytes.length === 0) break
      this.#write(bytes)
      left -= bytes.length
    }
    this.#endOutput()
  }

  #endOutput(): void {
    if (this.#isOver) return
    this.#writeBatch()
    this.#isOver = true
    if (this.#exitCode !== undefined) this.#writeExit(this.#exitCode)
  }

  #writeExit(code: number): void {
    clearTimeout(this.#silenceTimer)
    this.#to.end(encodeExit(code), this.#onFinished)
  }
}

/** Nothing: there is nothing now, or never again. */
function readAvailable(fd: number): Buffer {
  const buffer = Buffer.allocUnsafe(READ_BYTES)
  try {
    return buffer.subarray(0, readSync(fd, buffer))
  } catch {
    return buffer.subarray(0, 0)
  }
}

/** Always into the same place, which costs half as much as a new one each time; of this, too, its types do not say. */
const readInto = (buffer: Buffer, onBytes: (bytes: Buffer) => true): object => ({
  onread: { buffer, callback: (length: number) => onBytes(buffer.subarray(0, length)) },
})

/** A socket hands it on to the stream it is, which its types do not say. */
const BUFFER_OPTIONS: object = { writableHighWaterMark: BUFFERED_BYTES_MAX }
