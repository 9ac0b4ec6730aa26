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
import { exitFrame, frameOf } from './frames.ts'

const STDOUT = 1
/** A terminal ends when nobody has it any more; something that the command left running may have it for ever. */
const SILENT_MS = 200
/** And may print for ever. What the command printed is in the kernel by its end, and is read in any case. */
const TALKATIVE_MS_MAX = 1_000
/** More than the kernel keeps of a terminal's output. */
const LEFT_BYTES_MAX = 256 * 1024
const PIECE_BYTES = 16 * 1024
/** Handed over and not yet taken away; the command waits from there on. */
const HELD_BYTES = 128 * 1024
/** Goes on at once, whether or not more comes right behind it. */
const GATHERED_BYTES = 16 * 1024
/** So much in that time is a flood: nobody reads along, and each piece of it has its price all the way to the view. */
const FLOOD_BYTES = 256 * 1024
const FLOOD_MS = 100
/** In a flood, what has come waits so long for more. */
const FLOOD_WAIT_MS = 4

export class Printed {
  readonly #fd: number
  readonly #from: ReadStream
  readonly #to: Socket
  readonly #last: () => void
  #code: number | undefined
  /** What waits to go on together. */
  readonly #gathered = Buffer.allocUnsafe(GATHERED_BYTES + PIECE_BYTES)
  #length = 0
  /** Since when it is counted anew, and what was printed since. */
  #since = 0
  #bytes = 0
  #isFlood = false
  #isHeld = false
  #isGathering = false
  #isOver = false
  #silence: NodeJS.Timeout | undefined

  /** `last`: all is told, or nobody listens. */
  constructor(fd: number, last: () => void) {
    this.#fd = fd
    this.#last = last
    // A stream of its own: Node's process.stdout writes to a pipe while nothing else goes on.
    this.#to = new Socket({ fd: STDOUT, readable: false, writable: true, ...HELD })
    this.#to.on('error', last).on('drain', () => this.#release())
    this.#from = new ReadStream(
      fd,
      readingInto(Buffer.allocUnsafe(PIECE_BYTES), (bytes) => this.#tell(bytes)),
    )
    // The end of a terminal may be an error of input and output; then it was empty, and is closed already.
    this.#from.on('error', () => this.#over()).on('end', () => this.#rest())
    this.#from.resume()
  }

  /** The command has ended; what it printed last may still be on its way. */
  ended(code: number): void {
    this.#code = code
    if (this.#isOver) {
      this.#finish(code)
      return
    }
    this.#listen()
    setTimeout(() => this.#rest(), TALKATIVE_MS_MAX)
  }

  /** It is taken, in any case; what comes after the last is nobody's. */
  #tell(bytes: Buffer): true {
    if (this.#isOver) return true
    this.#length += bytes.copy(this.#gathered, this.#length)
    this.#count(bytes.length)
    if (this.#code !== undefined) this.#listen()
    if (this.#length >= GATHERED_BYTES) this.#goOn()
    else if (!this.#isGathering) this.#gather()
    return true
  }

  /** For as long as more comes in each turn. */
  #gather(): void {
    const before = this.#length
    this.#isGathering = true
    setImmediate(() => {
      this.#isGathering = false
      if (this.#length > before) this.#gather()
      else if (this.#isFlood) this.#gatherLonger()
      else this.#goOn()
    })
  }

  #gatherLonger(): void {
    this.#isGathering = true
    setTimeout(() => {
      this.#isGathering = false
      this.#goOn()
    }, FLOOD_WAIT_MS)
  }

  #goOn(): void {
    if (this.#length === 0 || this.#put(this.#gathered.subarray(0, this.#length)) || this.#isHeld) return
    this.#isHeld = true
    this.#from.pause()
  }

  #count(bytes: number): void {
    const forMs = performance.now() - this.#since
    if (forMs >= FLOOD_MS) {
      // It goes on for as long as it was one until just now.
      this.#isFlood = this.#bytes >= FLOOD_BYTES && forMs < 2 * FLOOD_MS
      this.#since += forMs
      this.#bytes = 0
    }
    this.#bytes += bytes
    if (this.#bytes >= FLOOD_BYTES) this.#isFlood = true
  }

  /** All that is gathered. A copy: it is gathered in the same place again. */
  #put(bytes: Buffer): boolean {
    this.#length = 0
    return this.#to.write(frameOf('output', bytes))
  }

  #release(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#from.resume()
  }

  #listen(): void {
    clearTimeout(this.#silence)
    this.#silence = setTimeout(() => (this.#isHeld ? this.#listen() : this.#rest()), SILENT_MS)
  }

  /**
   * Node takes a terminal that nobody has any more for one that is empty, and this process may itself have been kept
   * waiting; so what the kernel still has is asked for.
   */
  #rest(): void {
    this.#goOn()
    for (let left = LEFT_BYTES_MAX; left > 0 && !this.#isOver; ) {
      const bytes = readNow(this.#fd)
      if (bytes.length === 0) break
      this.#put(bytes)
      left -= bytes.length
    }
    this.#over()
  }

  #over(): void {
    if (this.#isOver) return
    this.#goOn()
    this.#isOver = true
    if (this.#code !== undefined) this.#finish(this.#code)
  }

  #finish(code: number): void {
    clearTimeout(this.#silence)
    this.#to.end(exitFrame(code), this.#last)
  }
}

/** Nothing: there is nothing now, or never again. */
function readNow(fd: number): Buffer {
  const buffer = Buffer.allocUnsafe(PIECE_BYTES)
  try {
    return buffer.subarray(0, readSync(fd, buffer))
  } catch {
    return buffer.subarray(0, 0)
  }
}

/** Always into the same place, which costs half as much as a new one each time; of this, too, its types do not say. */
const readingInto = (buffer: Buffer, take: (bytes: Buffer) => true): object => ({
  onread: { buffer, callback: (length: number) => take(buffer.subarray(0, length)) },
})

/** A socket hands it on to the stream it is, which its types do not say. */
const HELD: object = { writableHighWaterMark: HELD_BYTES }
