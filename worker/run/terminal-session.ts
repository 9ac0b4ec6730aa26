/**
 * The one terminal of a booted sandbox, from outside: frames go in and out of the sandbox's `terminal`, and characters
 * come out of it whole.
 *
 * What nobody takes is not read: then the pipe fills, and whatever prints inside waits. How it ended is told once, after
 * everything that it printed; when it could not even begin, what is wrong is printed in its place.
 */
import { StringDecoder } from 'node:string_decoder'
import type { TerminalSession, TerminalSessionListener, TerminalSize } from '../../core/daemon/terminal.ts'
import { toPrintable } from '../agents/printable-output.ts'
import { codeIn, type Frame, FrameReader, frameOf, resizeFrame } from '../inside/terminal/frames.ts'
import type { SandboxEnd, SandboxProcess } from '../sandbox/sandbox-process.ts'

/** Typed, and not yet taken in by the sandbox: what is typed beyond it is lost, as at any terminal. */
const TYPED_BYTES_MAX = 1024 * 1024
const PIECE_BYTES_MAX = 64 * 1024
const COMPLAINT_CHARS_MAX = 4_096
const FAILED = 70
/** By a shell's convention, killed. */
const KILLED = 137

export class BootedSession implements TerminalSession {
  readonly #process: SandboxProcess
  readonly #ear: TerminalSessionListener
  readonly #frames = new FrameReader()
  readonly #letters = new StringDecoder('utf8')
  #complaint = ''
  #code: number | undefined
  #isOver = false

  constructor(process: SandboxProcess, ear: TerminalSessionListener) {
    this.#process = process
    this.#ear = ear
    process.stdout.on('data', (chunk: Buffer) => this.#hear(chunk)).on('error', () => {})
    process.stderr.on('data', (chunk: Buffer) => this.#complain(chunk)).on('error', () => {})
    void process.ended.then((end) => this.#end(end))
  }

  input(data: string): void {
    const { input } = this.#process
    const bytes = Buffer.from(data)
    if (this.#isOver || input === undefined) return
    if (input.writableLength + bytes.length > TYPED_BYTES_MAX) return
    for (let at = 0; at < bytes.length; at += PIECE_BYTES_MAX)
      input.write(frameOf('input', bytes.subarray(at, at + PIECE_BYTES_MAX)))
  }

  resize(size: TerminalSize): void {
    const { input } = this.#process
    if (this.#isOver || input === undefined || input.writableLength > TYPED_BYTES_MAX) return
    input.write(resizeFrame(size))
  }

  pause(): void {
    if (!this.#isOver) this.#process.stdout.pause()
  }

  resume(): void {
    this.#process.stdout.resume()
  }

  /** Hangs up. Nothing more is heard of it; what is on its way goes nowhere. */
  leave(): void {
    this.#isOver = true
    this.#process.stdout.resume()
    this.#process.input?.end()
  }

  #hear(chunk: Buffer): void {
    if (this.#isOver || this.#code !== undefined) return
    const frames = this.#frames.push(chunk)
    if (frames === 'broken') this.#process.kill()
    else this.#obey(frames)
  }

  /** One text for all that came together. */
  #obey(frames: readonly Frame[]): void {
    let text = ''
    for (const { kind, bytes } of frames) {
      if (kind === 'output') text += this.#letters.write(bytes)
      else if (kind === 'exit') this.#code = codeIn(bytes)
      if (this.#code !== undefined) break
    }
    if (text !== '') this.#ear.onOutput(text)
  }

  #complain(chunk: Buffer): void {
    if (this.#complaint.length < COMPLAINT_CHARS_MAX) this.#complaint += chunk.toString('utf8')
  }

  #end(end: SandboxEnd): void {
    if (this.#isOver) return
    const rest = this.#letters.end()
    const wrong = this.#code === undefined ? this.#wrong(end) : ''
    if (rest + wrong !== '') this.#ear.onOutput(rest + wrong)
    // Whoever hears it may have it closed at that.
    if (this.#isOver) return
    this.#isOver = true
    this.#ear.onExit(this.#code ?? codeOf(end))
  }

  #wrong({ startFailure: unmade, signal }: SandboxEnd): string {
    const killed = signal === undefined ? 'the terminal has ended' : `the terminal was ended by ${signal}`
    const said = toPrintable(this.#complaint.slice(0, COMPLAINT_CHARS_MAX)).trim()
    const text = unmade ?? (said === '' ? killed : said)
    return `\r\n${text.replaceAll('\n', '\r\n')}\r\n`
  }
}

function codeOf({ code, signal }: SandboxEnd): number {
  if (signal !== undefined) return KILLED
  return code === undefined || code === 0 ? FAILED : code
}
