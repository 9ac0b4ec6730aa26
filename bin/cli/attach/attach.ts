/**
 * `switchyard attach RUN`: attaches the person's terminal to a run's session, wherever its sandbox is.
 *
 * The command prints the detach keys first. All other keys go to the session, and its output is shown. When the person
 * detaches, the sandbox is released. When the session ends, its exit code becomes the exit code of this command.
 */

import type { Writable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { setTimeout as pause } from 'node:timers/promises'
import { ReadStream, WriteStream } from 'node:tty'
import { type AttachmentEnd, stayAttached } from '../../../client/attachment.ts'
import { type Client, createClient } from '../../../client/client.ts'
import type { ClientConnection } from '../../../client/connection.ts'
import { HostRefusal, reasonOf, withoutControls } from '../../../client/errors.ts'
import { InputSender } from '../../../client/input-sender.ts'
import type { Cancel } from '../../../core/ports/clock.ts'
import { ID_CHARS_MAX } from '../../../protocol/limits.ts'
import type { Run } from '../../../protocol/run.ts'
import { completeCommands } from '../../output/complete-commands.ts'
import { formatError } from '../../output/output.ts'
import { realClock } from '../../process/clock.ts'
import { EXIT, EXIT_OF_SIGNAL, usageError } from '../../process/exit.ts'
import { connectToHost } from '../../process/host-connection.ts'
import { startedAs } from '../../process/this-program.ts'
import { findRun } from '../command/names.ts'
import { cureOfRun } from '../runs/run-cures.ts'
import { type DetachKeys, DetachKeyWatcher, readDetachKeys } from './detach-keys.ts'
import { handleProcessEnd, handleSuspension, LocalTerminal, windowSizeOf } from './local-terminal.ts'

interface AttachOptions {
  readonly dataDir?: string
  readonly detachKeys: string
  /** Do not release the sandbox on detaching; it closes by itself when no view is open. */
  readonly keep?: true
  /** False: pass on standard input and output without a terminal. */
  readonly tty: boolean
}

const EXIT_CODE_MAX = 255
/** The time limit of the release, because the person waits for the prompt. Without it the sandbox closes by itself. */
const RELEASE_MS_MAX = 5_000
/** The wait for late mouse reports, which must not reach the person's shell. */
const LAST_REPORTS_MS = 40
const TITLE_CHARS_MAX = 80
/** Ctrl-D, sent at the end of the input. */
const END_OF_INPUT = '\x04'

interface AttachSession {
  readonly runId: string
  readonly keys: DetachKeys
  readonly connection: ClientConnection
  readonly options: AttachOptions
}

export async function attach(name: string, options: AttachOptions): Promise<void> {
  const { session, run } = await findSession(createSession(name, options))
  const end = options.tty ? await attachTerminal(session, titleOf(run)) : await attachStreams(session)
  const message =
    end.is === 'left' ? await releaseSandbox(session) : 'message' in end ? end.message : undefined
  const named = end.is === 'refused' ? cureOfRun('attach', run) : undefined
  const cure = named && completeCommands(named, { program: startedAs().join(' '), dataDir: options.dataDir })
  if (message !== undefined) process.stderr.write(formatError({ message, cure }))
  process.exit(exitCodeOf(end))
}

function createSession(runId: string, options: AttachOptions): AttachSession {
  const keys = readDetachKeys(options.detachKeys)
  if (!keys.ok) throw usageError(keys.refusal.message)
  if (runId === '' || /^\.{1,2}$/.test(runId) || runId.length > ID_CHARS_MAX)
    throw usageError('RUN: must name a run, or its ticket')
  const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true
  if (options.tty && !isTerminal)
    throw usageError('standard input and output must be a terminal; use --no-tty to pass them on without one')
  return {
    runId,
    keys: keys.value,
    options,
    connection: connectToHost(options.dataDir, process.env),
  }
}

/** A whole id needs one request only. */
async function findSession(session: AttachSession): Promise<{ session: AttachSession; run: Run }> {
  const client = clientOf(session)
  try {
    return { session, run: await client.readRun({ id: session.runId }) }
  } catch (error) {
    if (!(error instanceof HostRefusal) || error.status !== 404) throw error
    const run = await findRun(client, session.runId)
    return { session: { ...session, runId: run.id }, run }
  }
}

const clientOf = ({ connection }: AttachSession): Client => createClient(connection)

const waysToHost = ({ runId, connection }: AttachSession) => ({
  runId,
  dial: connection.dial,
  findHost: async () => connection.address(),
})

/** The ticket's identifier, which tells a person more than the run's id. */
const titleOf = ({ ticket }: Run): string =>
  withoutControls(ticket.identifier).replace(/\s/g, ' ').slice(0, TITLE_CHARS_MAX)

// ---- on a terminal -------------------------------------------------------------------------------------------------

async function attachTerminal(session: AttachSession, name: string): Promise<AttachmentEnd> {
  const [input, output] = [process.stdin, process.stdout]
  // Checked before; this narrows the types.
  if (!(input instanceof ReadStream) || !(output instanceof WriteStream)) throw new Error('no terminal')
  const terminal = new LocalTerminal({ input, output })
  const leave = new AbortController()
  handleProcessEnd(() => terminal.restore())
  output.write(`${name}: attaching. To detach: ${session.keys.name}\r\n`)
  const title = `${name} · detach: ${session.keys.name}`
  terminal.takeOver(title)
  const redrawListeners = new Set<() => void>()
  handleSuspension(terminal, title, redrawListeners)
  const inputSender = new InputSender(realClock, (isFull) => void (isFull ? input.pause() : input.resume()))
  output.on('resize', () => inputSender.resize(terminal.size()))
  forwardInput(inputSender, new DetachKeyWatcher(session.keys), leave)
  try {
    return await stayAttached({
      ...waysToHost(session),
      clock: realClock,
      inputSender,
      size: () => terminal.size(),
      draw: (text) => terminal.draw(text),
      note: (text) => terminal.note(`${text} (to detach: ${session.keys.name})`),
      leave: leave.signal,
      onRedrawNeeded: (listener) => {
        redrawListeners.add(listener)
        return () => void redrawListeners.delete(listener)
      },
    })
  } finally {
    terminal.resetModes()
    await pause(LAST_REPORTS_MS)
    terminal.restore()
    // A flowing input would keep this process alive.
    input.pause()
  }
}

function forwardInput(inputSender: InputSender, watch: DetachKeyWatcher, leave: AbortController): void {
  const { stdin } = process
  const decoder = new StringDecoder('utf8')
  stdin.on('data', (bytes: Buffer) => {
    if (leave.signal.aborted) return
    const { text, detach } = watch.filter(decoder.write(bytes))
    if (text !== '') inputSender.send(text)
    if (detach) leave.abort()
  })
  // The terminal's window was closed, and its signal may not have arrived.
  stdin.on('close', () => process.exit(EXIT_OF_SIGNAL.SIGHUP))
}

// ---- without one ---------------------------------------------------------------------------------------------------

async function attachStreams(session: AttachSession): Promise<AttachmentEnd> {
  const { stdin, stdout, stderr } = process
  const leave = new AbortController()
  const note = (text: string) => void stderr.write(`switchyard: ${text}\n`)
  const output = new PipedOutput(stdout, note)
  handleProcessEnd(() => {})
  // The reader of the output has closed it.
  stdout.on('error', () => leave.abort())
  const inputSender = new InputSender(realClock, (isFull) => void (isFull ? stdin.pause() : stdin.resume()))
  stdin.setEncoding('utf8')
  stdin.on('data', (text) => inputSender.send(String(text)))
  stdin.on('end', () => inputSender.send(END_OF_INPUT))
  const end = await stayAttached({
    ...waysToHost(session),
    clock: realClock,
    inputSender,
    size: () => windowSizeOf(stdout),
    draw: (text) => output.draw(text),
    note,
    leave: leave.signal,
    onRedrawNeeded: (listener) => output.onRedrawNeeded(listener),
  })
  await output.flush()
  return end
}

// ---- the end -------------------------------------------------------------------------------------------------------

async function releaseSandbox(session: AttachSession): Promise<string> {
  if (session.options.keep === true)
    return 'detached; the session ends by itself unless somebody attaches again soon'
  try {
    await clientOf(session).releaseRun({ id: session.runId }, { timeoutMs: RELEASE_MS_MAX })
    return 'detached; the sandbox is released, and its disk is retained'
  } catch (error) {
    return `detached; the sandbox could not be released and closes by itself: ${reasonOf(error)}`
  }
}

function exitCodeOf(end: AttachmentEnd): number {
  if (end.is === 'left') return EXIT.done
  if (end.is !== 'exited') return end.is === 'refused' ? EXIT.refused : EXIT.unavailable
  const isOne = Number.isInteger(end.code) && end.code >= 0 && end.code <= EXIT_CODE_MAX
  return isOne ? end.code : EXIT_CODE_MAX
}

// ---- output that is no terminal ------------------------------------------------------------------------------------

const WAITING_BYTES_MAX = 8 * 1024 * 1024
const BEHIND = 'the reader of the output is too slow; a part was left out'
const BEHIND_WITH_REDRAW = `${BEHIND}, and the whole screen follows again`

/**
 * Writes session output to standard output that is no terminal: a program or a file that reads at its own pace.
 *
 * Writing to a terminal blocks; writing to a pipe does not. So the unread output is limited: above the limit output is
 * dropped until the reader has caught up, and then a redraw of the whole screen is requested. `flush` writes everything
 * that was accepted before this process ends.
 */
export class PipedOutput {
  readonly #stream: Writable
  readonly #note: (text: string) => void
  readonly #redrawListeners = new Set<() => void>()
  #isFull = false

  constructor(stream: Writable, note: (text: string) => void) {
    this.#stream = stream
    this.#note = note
    stream.on('drain', () => this.#onDrained())
  }

  draw(text: string): void {
    if (this.#isFull) return
    this.#stream.write(text)
    this.#isFull = this.#stream.writableLength > WAITING_BYTES_MAX
  }

  /** Calls the listener when output was dropped and the reader has caught up. */
  onRedrawNeeded(listener: () => void): Cancel {
    this.#redrawListeners.add(listener)
    return () => void this.#redrawListeners.delete(listener)
  }

  /** Resolves when all accepted output is written, or the reader is gone. */
  flush(): Promise<void> {
    return new Promise((resolve) => void this.#stream.write('', () => resolve()))
  }

  #onDrained(): void {
    if (!this.#isFull) return
    this.#isFull = false
    // After the end of the session no listener is left to redraw.
    this.#note(this.#redrawListeners.size === 0 ? BEHIND : BEHIND_WITH_REDRAW)
    for (const listener of [...this.#redrawListeners]) listener()
  }
}
