/**
 * What a terminal's command prints, on its way to standard output: read no faster than it is taken away.
 *
 * After the command's end it goes on for as long as something that was printed is still to come, then says how the
 * command ended, and calls it the last.
 */
import { Socket } from 'node:net'
import { ReadStream } from 'node:tty'
import { exitFrame, headOf } from './frames.ts'

const STDOUT = 1
/** What an ended command has printed is there at once; something it left running may hold the terminal for ever. */
const SILENT_MS = 200
/** Handed over and not yet taken away; the command waits from there on. */
const HELD_BYTES = 128 * 1024

export class Printed {
  readonly #from: ReadStream
  readonly #to: Socket
  readonly #last: () => void
  #code: number | undefined
  #isHeld = false
  #isCorked = false
  #isOver = false
  #silence: NodeJS.Timeout | undefined

  /** `last`: all is told, or nobody listens. */
  constructor(fd: number, last: () => void) {
    this.#last = last
    // A stream of its own: Node's process.stdout writes to a pipe while nothing else goes on.
    this.#to = new Socket({ fd: STDOUT, readable: false, writable: true, ...HELD })
    this.#to.on('error', last).on('drain', () => this.#release())
    this.#from = new ReadStream(fd)
    this.#from.on('data', (bytes: Buffer) => this.#tell(bytes))
    // The end of a terminal is an error of input and output.
    this.#from.on('error', () => this.#over()).on('end', () => this.#over())
  }

  /** The command has ended; what it printed last may still be on its way. */
  ended(code: number): void {
    this.#code = code
    if (this.#isOver) this.#finish(code)
    else this.#listen()
  }

  #tell(bytes: Buffer): void {
    this.#gather()
    this.#to.write(headOf('output', bytes.length))
    const isRoomLeft = this.#to.write(bytes)
    if (this.#code !== undefined) this.#listen()
    if (isRoomLeft || this.#isHeld) return
    this.#isHeld = true
    this.#from.pause()
  }

  /** The kernel hands a terminal's output over in small pieces, and many of them at once. */
  #gather(): void {
    if (this.#isCorked) return
    this.#isCorked = true
    this.#to.cork()
    setImmediate(() => {
      this.#isCorked = false
      this.#to.uncork()
    })
  }

  #release(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#from.resume()
  }

  #listen(): void {
    clearTimeout(this.#silence)
    this.#silence = setTimeout(() => (this.#isHeld ? this.#listen() : this.#over()), SILENT_MS)
  }

  #over(): void {
    if (this.#isOver) return
    this.#isOver = true
    if (this.#code !== undefined) this.#finish(this.#code)
  }

  #finish(code: number): void {
    clearTimeout(this.#silence)
    this.#to.end(exitFrame(code), this.#last)
  }
}

/** A socket hands it on to the stream it is, which its types do not say. */
const HELD: object = { writableHighWaterMark: HELD_BYTES }
