/**
 * `switchyard attach RUN`: attaches the person's terminal to a run's session, wherever its sandbox is.
 *
 * The command prints the detach keys first. All other keys go to the session, and its output is shown. When the person
 * detaches, the sandbox is released. When the session ends, its exit code becomes the exit code of this command.
 */

import { StringDecoder } from 'node:string_decoder'
import { setTimeout as pause } from 'node:timers/promises'
import { ReadStream, WriteStream } from 'node:tty'
import { hasMark } from '../../client/answer-marks.ts'
import { type AttachmentEnd, stayAttached } from '../../client/attachment.ts'
import { type Client, createClient } from '../../client/client.ts'
import type { HostAddress } from '../../client/connection.ts'
import { HostRefusal, reasonOf, withoutControls } from '../../client/errors.ts'
import { findHost } from '../../client/find-host.ts'
import { InputSender } from '../../client/input-sender.ts'
import { sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import { ID_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import { type DetachKeys, DetachKeyWatcher, readDetachKeys } from '../attach/detach-keys.ts'
import { LocalTerminal, windowSizeOf } from '../attach/local-terminal.ts'
import { PipedOutput } from '../attach/piped-output.ts'
import { EXIT_HUNG_UP, handleProcessEnd, handleSuspension } from '../attach/signal-handling.ts'
import { findRun } from '../client/names.ts'
import { cureOfRun } from '../client/run-cures.ts'
import { realClock } from '../clock.ts'
import { resolveDataDir } from '../data-dir.ts'
import { EXIT, ExitError } from '../exit.ts'
import { completeCommands } from '../output/complete-commands.ts'
import { formatError } from '../output/format-error.ts'
import { startedAs } from '../shell-command.ts'

export interface AttachOptions {
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
  readonly findHost: () => Promise<HostAddress>
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
  if (!keys.ok) throw new ExitError(EXIT.usage, keys.refusal.message)
  if (runId === '' || /^\.{1,2}$/.test(runId) || runId.length > ID_CHARS_MAX)
    throw new ExitError(EXIT.usage, 'RUN: must name a run, or its ticket')
  const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true
  if (options.tty && !isTerminal)
    throw new ExitError(
      EXIT.usage,
      'standard input and output must be a terminal; use --no-tty to pass them on without one',
    )
  const dataDir = resolveDataDir(options.dataDir)
  const { SWITCHYARD_URL, SWITCHYARD_TOKEN, SWITCHYARD_TOKEN_FILE, SWITCHYARD_HOST_USER } = process.env
  const named = { SWITCHYARD_URL, SWITCHYARD_TOKEN, SWITCHYARD_TOKEN_FILE, SWITCHYARD_HOST_USER }
  // Child processes must not inherit the token.
  delete process.env.SWITCHYARD_TOKEN
  return {
    runId,
    keys: keys.value,
    options,
    findHost: () => findHost(dataDir, named),
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

const clientOf = (session: AttachSession): Client =>
  createClient({ address: session.findHost, send: sendByNode, dial: dialByNode, isAnswer: hasMark })

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
      ...session,
      dial: dialByNode,
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
  stdin.on('close', () => process.exit(EXIT_HUNG_UP))
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
    ...session,
    dial: dialByNode,
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
