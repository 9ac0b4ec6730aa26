/**
 * `SandboxTerminal` is the worker's end of the one terminal of a booted sandbox: it exchanges frames with the program
 * `terminal` inside, and decodes the output into whole characters.
 *
 * While paused it does not read, so the pipe fills and the program inside waits. The listener receives the exit code
 * once, after all output. If the program could not start, the reason appears as output.
 */
import { StringDecoder } from 'node:string_decoder'
import type { TerminalSession, TerminalSessionListener, TerminalSize } from '../../../core/daemon/terminal.ts'
import { toPrintable } from '../../../core/printable-output.ts'
import { ATTACH_INPUT_BYTES_AT_ONCE } from '../../../protocol/limits.ts'
import {
  decodeExitCode,
  encodeFrame,
  encodeResize,
  type PtyFrame,
  PtyFrameReader,
} from '../../inside/terminal/frames.ts'
import type { SandboxEnd, SandboxProcess } from '../../sandbox/driver.ts'

/** Limit of input that the sandbox has not read yet; further input is dropped. Twice what a view may type at once. */
const INPUT_BYTES_MAX = 2 * ATTACH_INPUT_BYTES_AT_ONCE
const INPUT_PIECE_BYTES_MAX = 64 * 1024
const STDERR_CHARS_MAX = 4_096
const FAILED = 70
/** The shell's exit code for a process that was killed (128 + SIGKILL). */
const KILLED = 137

export class SandboxTerminal implements TerminalSession {
  readonly #process: SandboxProcess
  readonly #listener: TerminalSessionListener
  readonly #frames = new PtyFrameReader()
  readonly #decoder = new StringDecoder('utf8')
  #stderr = ''
  #code: number | undefined
  #isOver = false

  constructor(process: SandboxProcess, listener: TerminalSessionListener) {
    this.#process = process
    this.#listener = listener
    process.stdout.on('data', (chunk: Buffer) => this.#onOutput(chunk)).on('error', () => {})
    process.stderr.on('data', (chunk: Buffer) => this.#onStderr(chunk)).on('error', () => {})
    void process.ended.then((end) => this.#onEnd(end))
  }

  input(data: string): void {
    const { input } = this.#process
    const bytes = Buffer.from(data)
    if (this.#isOver || input === undefined) return
    if (input.writableLength + bytes.length > INPUT_BYTES_MAX) return
    for (let at = 0; at < bytes.length; at += INPUT_PIECE_BYTES_MAX)
      input.write(encodeFrame('input', bytes.subarray(at, at + INPUT_PIECE_BYTES_MAX)))
  }

  resize(size: TerminalSize): void {
    const { input } = this.#process
    if (this.#isOver || input === undefined || input.writableLength > INPUT_BYTES_MAX) return
    input.write(encodeResize(size))
  }

  pause(): void {
    if (!this.#isOver) this.#process.stdout.pause()
  }

  resume(): void {
    this.#process.stdout.resume()
  }

  /** Closes the input; the listener receives nothing more, and remaining output is discarded. */
  hangUp(): void {
    this.#isOver = true
    this.#process.stdout.resume()
    this.#process.input?.end()
  }

  #onOutput(chunk: Buffer): void {
    if (this.#isOver || this.#code !== undefined) return
    const frames = this.#frames.push(chunk)
    if (frames === 'broken') this.#process.kill()
    else this.#applyFrames(frames)
  }

  /** Joins the output of all frames that arrived together. */
  #applyFrames(frames: readonly PtyFrame[]): void {
    let text = ''
    for (const { kind, bytes } of frames) {
      if (kind === 'output') text += this.#decoder.write(bytes)
      else if (kind === 'exit') this.#code = decodeExitCode(bytes)
      if (this.#code !== undefined) break
    }
    if (text !== '') this.#listener.onOutput(text)
  }

  #onStderr(chunk: Buffer): void {
    if (this.#stderr.length < STDERR_CHARS_MAX) this.#stderr += chunk.toString('utf8')
  }

  #onEnd(end: SandboxEnd): void {
    if (this.#isOver) return
    const rest = this.#decoder.end()
    const failure = this.#code === undefined ? this.#describeFailure(end) : ''
    if (rest + failure !== '') this.#listener.onOutput(rest + failure)
    // The listener may have closed the terminal while it handled the output.
    if (this.#isOver) return
    this.#isOver = true
    this.#listener.onExit(this.#code ?? exitCodeOf(end))
  }

  #describeFailure({ startFailure, signal }: SandboxEnd): string {
    const ended = signal === undefined ? 'the terminal has ended' : `the terminal was ended by ${signal}`
    const message = toPrintable(this.#stderr.slice(0, STDERR_CHARS_MAX)).trim()
    const text = startFailure ?? (message === '' ? ended : message)
    return `\r\n${text.replaceAll('\n', '\r\n')}\r\n`
  }
}

function exitCodeOf({ code, signal }: SandboxEnd): number {
  if (signal !== undefined) return KILLED
  return code === undefined || code === 0 ? FAILED : code
}
