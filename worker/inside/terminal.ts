/**
 * A terminal inside a sandbox: `terminal COLUMNS ROWS COMMAND …` runs the command on a pseudo-terminal of its own, and
 * its standard input and output carry the frames of `terminal/frames.ts`.
 *
 * What is printed is read no faster than it is taken away, and what is typed is written no faster than it is read:
 * neither of them ever holds up the other, so Ctrl-C gets through to a command that floods. It ends when the command
 * has, after the last that was printed, or when nobody is there any more. The one native part lies beside this file.
 */
import { writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { ReadStream } from 'node:tty'
import { exitFrame, type Frame, FrameReader, headOf, sizeIn } from './terminal/frames.ts'

const [STDOUT, FAILED] = [1, 70] as const
const SIGNALLED = 128
/** Of the kernel's own queue, which can only be asked again. */
const RETRY_MS = 4
/** Typed, or pasted, and not yet read by the command. Beyond it nothing more is taken in. */
const TYPED_BYTES_MAX = 128 * 1024
/** What an ended command has printed is there at once; something it left running may hold the terminal for ever. */
const SILENT_MS = 200
/** Handed over and not yet taken away; the command waits from there on. */
const HELD_BYTES = 128 * 1024

/** Of `pty.node`. */
interface Native {
  fork(
    file: string,
    args: readonly string[],
    environment: readonly string[],
    cwd: string,
    cols: number,
    rows: number,
    uid: number,
    gid: number,
    utf8: boolean,
    helper: string,
    exited: (code: number, signal: number) => void,
  ): { readonly fd: number; readonly pid: number }
  resize(fd: number, cols: number, rows: number): void
}

try {
  main()
} catch (error) {
  process.stderr.write(`the terminal could not be opened: ${error instanceof Error ? error.message : error}\n`)
  process.exitCode = FAILED
}

function main(): void {
  const [cols, rows, file = '', ...args] = process.argv.slice(2)
  const native = load()
  const environment = Object.entries(process.env).map(([name, value]) => `${name}=${value ?? ''}`)
  const [wide, high] = [Number(cols) || 80, Number(rows) || 24]
  const { fd } = native.fork(file, args, environment, process.cwd(), wide, high, -1, -1, true, '', (code, signal) =>
    printed.over(signal === 0 ? code : SIGNALLED + signal),
  )
  const printed = new Printed(fd)
  const typed = new Typed(fd)
  const reader = new FrameReader()
  const input = new Socket({ fd: 0, readable: true, writable: false })
  const obey = ({ kind, bytes }: Frame): void => {
    if (kind === 'input') typed.add(bytes)
    const size = kind === 'resize' ? sizeIn(bytes) : undefined
    if (size !== undefined) native.resize(fd, size.cols, size.rows)
  }
  input.on('data', (chunk: Buffer) => {
    const frames = reader.push(chunk)
    if (frames === 'broken') return leave()
    for (const frame of frames) obey(frame)
    if (typed.bytes > TYPED_BYTES_MAX) typed.whenRead(input.pause())
  })
  input.on('error', leave).on('close', leave)
}

/** Whoever runs on the terminal is hung up. */
function leave(): void {
  process.exit(0)
}

function load(): Native {
  const native: { exports: Native | object } = { exports: {} }
  process.dlopen(native, join(dirname(process.argv[1] ?? ''), 'pty.node'))
  // What it exports is what its library says; there is nothing to check it by but using it.
  return native.exports as Native
}

// ---- outwards --------------------------------------------------------------------------------------------------------

/** What is printed, on its way to standard output. */
class Printed {
  readonly #from: ReadStream
  readonly #to = new Socket({ fd: STDOUT, readable: false, writable: true, writableHighWaterMark: HELD_BYTES })
  #code: number | undefined
  #isHeld = false
  #isCorked = false
  #silence: NodeJS.Timeout | undefined
  #ended = false

  constructor(fd: number) {
    this.#from = new ReadStream(fd)
    this.#from.on('data', (bytes: Buffer) => this.#tell(bytes))
    // The end of a terminal is an error of input and output.
    this.#from.on('error', () => this.#end()).on('end', () => this.#end())
    this.#to.on('error', leave).on('drain', () => this.#release())
  }

  /** The command has ended; what it printed last may still be on its way. */
  over(code: number): void {
    this.#code = code
    if (this.#ended) this.#finish()
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
    this.#silence = setTimeout(() => (this.#isHeld ? this.#listen() : this.#end()), SILENT_MS)
  }

  #end(): void {
    if (this.#ended) return
    this.#ended = true
    if (this.#code !== undefined) this.#finish()
  }

  #finish(): void {
    clearTimeout(this.#silence)
    this.#to.end(exitFrame(this.#code ?? FAILED), leave)
  }
}

// ---- inwards ---------------------------------------------------------------------------------------------------------

/**
 * What is typed, on its way to the command. Written here and not by a stream: the kernel takes nothing while a command
 * does not read, and Node's own writer would then ask again without doing anything else.
 */
class Typed {
  readonly #fd: number
  readonly #waiting: Buffer[] = []
  #bytes = 0
  #isRetrying = false
  #paused: Socket | undefined

  constructor(fd: number) {
    this.#fd = fd
  }

  get bytes(): number {
    return this.#bytes
  }

  add(bytes: Buffer): void {
    if (bytes.length === 0) return
    this.#waiting.push(bytes)
    this.#bytes += bytes.length
    if (!this.#isRetrying) this.#write()
  }

  /** Goes on with it once half of what waits is read. */
  whenRead(socket: Socket): void {
    this.#paused = socket
  }

  #write(): void {
    this.#isRetrying = false
    while (this.#waiting[0] !== undefined) {
      const written = this.#take(this.#waiting[0])
      if (written === 0) return this.#later()
    }
    this.#goOn()
  }

  #take(bytes: Buffer): number {
    const written = this.#tryWrite(bytes)
    this.#bytes -= written
    if (written === bytes.length) this.#waiting.shift()
    else this.#waiting[0] = bytes.subarray(written)
    return written
  }

  #tryWrite(bytes: Buffer): number {
    try {
      return writeSync(this.#fd, bytes)
    } catch (error) {
      const { errno } = error as NodeJS.ErrnoException
      // Nobody is at the other end any more.
      return errno === -constants.errno.EAGAIN ? 0 : bytes.length
    }
  }

  #later(): void {
    this.#isRetrying = true
    setTimeout(() => this.#write(), RETRY_MS)
    if (this.#bytes < TYPED_BYTES_MAX / 2) this.#goOn()
  }

  #goOn(): void {
    this.#paused?.resume()
    this.#paused = undefined
  }
}
