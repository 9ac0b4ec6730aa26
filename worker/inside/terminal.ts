/**
 * `terminal COLUMNS ROWS COMMAND …` runs a command on a pseudo-terminal inside a sandbox.
 *
 * Standard input and output carry the frames of `terminal/frames.ts`. Both directions have backpressure and are
 * independent, so Ctrl-C reaches a command that floods its output. The program exits after the command and its last
 * output. When the input ends, the command gets SIGHUP and can still save its state.
 */
import { readSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { ReadStream } from 'node:tty'
import { messageOf } from '../../protocol/message-of.ts'
import {
  decodeSize,
  encodeExit,
  encodeFrame,
  type PtyFrame,
  PtyFrameReader,
  type PtySize,
} from './terminal/frames.ts'

const FAILED = 70
const DEFAULT_SIZE = { cols: 80, rows: 24 }

const [cols, rows, ...command] = process.argv.slice(2)
let terminalOutput: TerminalOutput | undefined

function main(): void {
  const size = { cols: Number(cols) || DEFAULT_SIZE.cols, rows: Number(rows) || DEFAULT_SIZE.rows }
  const terminal = openPseudoTerminal(command, size, (code) => terminalOutput?.onCommandExit(code))
  terminalOutput = new TerminalOutput(terminal.fd, exit)
  const input = new Socket({ fd: 0, readable: true, writable: false })
  const terminalInput = new TerminalInput(terminal.fd, input)
  const reader = new PtyFrameReader()
  const handleFrame = ({ kind, bytes }: PtyFrame): void => {
    const newSize = kind === 'resize' ? decodeSize(bytes) : undefined
    if (newSize !== undefined) terminal.resize(newSize)
    else if (kind === 'input') terminalInput.add(bytes)
  }
  input.on('data', (chunk: Buffer) => {
    const frames = reader.push(chunk)
    if (frames === 'broken') exit()
    else frames.forEach(handleFrame)
  })
  input.on('error', () => {}).on('close', () => terminal.hangUp())
}

function exit(): void {
  process.exit()
}

// ---- the pseudo-terminal -------------------------------------------------------------------------------------------

interface NativePty {
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

interface PseudoTerminal {
  /** The master side, which is non-blocking. */
  readonly fd: number
  resize(size: PtySize): void
  hangUp(): void
}

/** By shell convention, a program ended by signal N exits with 128 + N. */
const SIGNAL_EXIT_CODE_BASE = 128
/** Keeps the current user and group. */
const UNCHANGED = -1

/**
 * Opens pseudo-terminals through the native module of node-pty, which the build puts beside the bundled programs.
 *
 * Throws when the native module is missing, or the system has no free pseudo-terminal.
 */
function openPseudoTerminal(
  [file = '', ...args]: readonly string[],
  { cols, rows }: PtySize,
  onExit: (code: number) => void,
): PseudoTerminal {
  const native = loadNative()
  const environment = Object.entries(process.env).map(([name, value]) => `${name}=${value ?? ''}`)
  const reportExit = (code: number, signal: number) =>
    onExit(signal === 0 ? code : SIGNAL_EXIT_CODE_BASE + signal)
  const cwd = process.cwd()
  const { fd, pid } = native.fork(
    file,
    args,
    environment,
    cwd,
    cols,
    rows,
    UNCHANGED,
    UNCHANGED,
    true,
    '',
    reportExit,
  )
  return { fd, resize: (size) => native.resize(fd, size.cols, size.rows), hangUp: () => hangUp(pid) }
}

/** Signals the session leader's process group as the kernel does on hang-up; SIGCONT wakes a stopped process. */
function hangUp(leader: number): void {
  for (const signal of ['SIGHUP', 'SIGCONT']) {
    try {
      process.kill(-leader, signal)
    } catch {
      // The process has ended.
    }
  }
}

function loadNative(): NativePty {
  const native: { exports: unknown } = { exports: {} }
  process.dlopen(native, join(dirname(process.argv[1] ?? ''), 'pty.node'))
  // The module comes from the pinned package version, so its type is not checked.
  return native.exports as NativePty
}

// ---- input ---------------------------------------------------------------------------------------------------------

/** The kernel does not signal when it accepts input again, so writes are retried. */
const RETRY_MS = 4
/** Input that the command has not read yet; above this limit, reading from the worker pauses. */
const PENDING_BYTES_MAX = 128 * 1024

/**
 * Writes typed input to a terminal's command, in order, as fast as the command reads.
 *
 * This class replaces Node's tty stream: while the command does not read, the kernel accepts nothing, and Node's stream
 * would retry in a busy loop that blocks everything else, such as reading the command's output.
 */
class TerminalInput {
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

// ---- output --------------------------------------------------------------------------------------------------------

const STDOUT = 1
/**
 * After the command's exit, this much silence ends the output: background children may keep the terminal open forever.
 */
const SILENCE_MS = 200
/** Ends the output even if background children keep printing. The command's own output is in the kernel by then. */
const OUTPUT_AFTER_EXIT_MS_MAX = 1_000
/** More than the kernel buffers for a terminal. */
const REST_BYTES_MAX = 256 * 1024
const READ_BYTES = 16 * 1024
/** Bytes written but not yet read by the worker; above this, reading pauses and the command blocks. */
const BUFFERED_BYTES_MAX = 128 * 1024
/** A batch of this size is sent at once. */
const BATCH_BYTES = 16 * 1024
/** This much within FLOOD_MS is a flood: no person can follow it, and each frame costs time all the way to the view. */
const FLOOD_BYTES = 256 * 1024
const FLOOD_MS = 100
/** In a flood, a batch waits this long for more. */
const FLOOD_WAIT_MS = 4

/**
 * Copies the output of a terminal's command to standard output as frames, with backpressure.
 *
 * The kernel delivers terminal output in small pieces, so pieces that arrive together are sent as one batch. After the
 * command has exited, the remaining output is read, then the exit frame is sent, and `onFinished` is called.
 */
class TerminalOutput {
  readonly #fd: number
  readonly #from: ReadStream
  readonly #to: Socket
  readonly #onFinished: () => void
  #exitCode: number | undefined
  /** The bytes of the current batch. */
  readonly #batch = Buffer.allocUnsafe(BATCH_BYTES + READ_BYTES)
  #batchBytes = 0
  /** Start of the current measurement, and the bytes printed since. */
  #countedSince = 0
  #countedBytes = 0
  #isFlood = false
  #isPaused = false
  #isBatching = false
  #isOver = false
  #silenceTimer: NodeJS.Timeout | undefined

  /** `onFinished` is called when everything is written, or when standard output is closed. */
  constructor(fd: number, onFinished: () => void) {
    this.#fd = fd
    this.#onFinished = onFinished
    // Not process.stdout, because Node writes to pipes synchronously there.
    this.#to = new Socket({ fd: STDOUT, readable: false, writable: true, ...BUFFER_OPTIONS })
    this.#to.on('error', onFinished).on('drain', () => this.#resumeReading())
    this.#from = new ReadStream(
      fd,
      readInto(Buffer.allocUnsafe(READ_BYTES), (bytes) => this.#onBytes(bytes)),
    )
    // The end of a terminal may be reported as an I/O error; then everything was read, and the descriptor is closed.
    this.#from.on('error', () => this.#endOutput()).on('end', () => this.#readRest())
    this.#from.resume()
  }

  /** Call this when the command has exited; its last output may still be unread. */
  onCommandExit(code: number): void {
    this.#exitCode = code
    if (this.#isOver) {
      this.#writeExit(code)
      return
    }
    this.#restartSilenceTimer()
    setTimeout(() => this.#readRest(), OUTPUT_AFTER_EXIT_MS_MAX)
  }

  /** Returns true to keep reading. Output after the end is dropped. */
  #onBytes(bytes: Buffer): true {
    if (this.#isOver) return true
    this.#batchBytes += bytes.copy(this.#batch, this.#batchBytes)
    this.#measureRate(bytes.length)
    if (this.#exitCode !== undefined) this.#restartSilenceTimer()
    if (this.#batchBytes >= BATCH_BYTES) this.#writeBatch()
    else if (!this.#isBatching) this.#waitForMore()
    return true
  }

  /** Extends the batch as long as each turn of the event loop brings more bytes. */
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
      // A flood continues while each measurement directly follows another flooded one.
      this.#isFlood = this.#countedBytes >= FLOOD_BYTES && forMs < 2 * FLOOD_MS
      this.#countedSince += forMs
      this.#countedBytes = 0
    }
    this.#countedBytes += bytes
    if (this.#countedBytes >= FLOOD_BYTES) this.#isFlood = true
  }

  /** Writes a copy of the batch, because its buffer is reused. */
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
   * Reads what the kernel still buffers. Node treats a hung-up terminal as empty, and this process itself may have been
   * delayed.
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

/** Returns an empty buffer when no bytes are available, now or ever. */
function readAvailable(fd: number): Buffer {
  const buffer = Buffer.allocUnsafe(READ_BYTES)
  try {
    return buffer.subarray(0, readSync(fd, buffer))
  } catch {
    return buffer.subarray(0, 0)
  }
}

/** Reads into one reused buffer, which halves the cost. Node's types lack this option of `ReadStream`. */
const readInto = (buffer: Buffer, onBytes: (bytes: Buffer) => true): object => ({
  onread: { buffer, callback: (length: number) => onBytes(buffer.subarray(0, length)) },
})

/** A socket passes this option to its stream; Node's types lack it. */
const BUFFER_OPTIONS: object = { writableHighWaterMark: BUFFERED_BYTES_MAX }

// Last, because `main` uses the constants and classes above.
try {
  main()
} catch (error) {
  process.stderr.write(`the terminal could not be opened: ${messageOf(error)}\n`)
  process.exitCode = FAILED
}
