/**
 * `switchyard attach ID`: a person's terminal in a run's session, wherever its sandbox is.
 *
 * How to leave is said first. Every key but those goes to the session, and all that it draws comes back. When the
 * person leaves, the sandbox is released; when the session's process ends, its exit code is this command's.
 */

import { StringDecoder } from 'node:string_decoder'
import { setTimeout as pause } from 'node:timers/promises'
import { ReadStream, WriteStream } from 'node:tty'
import { ID_CHARS_MAX } from '../../protocol/limits.ts'
import { askHost } from '../client/ask-host.ts'
import { type DetachKeys, DetachWatch, readDetachKeys } from '../client/detach-keys.ts'
import { findHost, type HostAt } from '../client/find-host.ts'
import { Typist } from '../client/input-sender.ts'
import { OwnTerminal, sizeOf } from '../client/local-terminal.ts'
import { PipedOutput } from '../client/piped-output.ts'
import { EXIT_HUNG_UP, mindEnds, mindStops } from '../client/signal-handling.ts'
import { type AttachmentEnd, stayAttached } from '../client/terminal-client.ts'
import { realClock } from '../clock.ts'
import { dataDirectory } from '../data-dir.ts'
import { Ending, EXIT } from '../exit.ts'
import { harmless } from '../quickstart/colors.ts'

export interface AttachOptions {
  readonly dataDir?: string
  readonly detachKeys: string
  /** The sandbox is not released; it ends by itself when nobody looks at it. */
  readonly keep?: true
  /** False: standard input and output are passed on, whatever they are. */
  readonly tty: boolean
}

const EXIT_CODE_MAX = 255
/** The person has left already and waits for a prompt; a sandbox that nobody looks at ends without this, too. */
const RELEASE_MS_MAX = 5_000
/** Reports of a mouse that was watched a moment ago must not end up at the person's shell. */
const LAST_REPORTS_MS = 40
const TITLE_CHARS_MAX = 80
/** The end of the input, as a person types it. */
const END_OF_INPUT = '\x04'

interface Visit {
  readonly runId: string
  readonly keys: DetachKeys
  readonly find: () => Promise<HostAt>
  readonly options: AttachOptions
}

export async function attach(runId: string, options: AttachOptions): Promise<void> {
  const visit = visitOf(runId, options)
  const run = await askHost(await visit.find(), { method: 'GET', path: pathOf(runId) })
  const end = options.tty ? await onTerminal(visit, nameOf(run, runId)) : await onStreams(visit)
  const said = end.is === 'left' ? await farewell(visit) : 'message' in end ? end.message : undefined
  if (said !== undefined) process.stderr.write(`switchyard: ${said}\n`)
  process.exit(codeOf(end))
}

function visitOf(runId: string, options: AttachOptions): Visit {
  const keys = readDetachKeys(options.detachKeys)
  if (!keys.ok) throw new Ending(EXIT.usage, keys.refusal.message)
  if (runId === '' || /^\.{1,2}$/.test(runId) || runId.length > ID_CHARS_MAX)
    throw new Ending(EXIT.usage, 'ID: must be the id of a run')
  const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true
  if (options.tty && !isTerminal)
    throw new Ending(
      EXIT.usage,
      'standard input and output must be a terminal; --no-tty passes them on as they are',
    )
  const dataDir = dataDirectory(options.dataDir)
  const { SWITCHYARD_URL, SWITCHYARD_TOKEN } = process.env
  // For this process alone, and not for what it starts.
  delete process.env.SWITCHYARD_TOKEN
  return {
    runId,
    keys: keys.value,
    options,
    find: () => findHost(dataDir, { SWITCHYARD_URL, SWITCHYARD_TOKEN }),
  }
}

const pathOf = (runId: string, deed = ''): string => `/api/runs/${encodeURIComponent(runId)}${deed}`

/** The ticket's short name says more than the run's id. */
function nameOf(run: unknown, runId: string): string {
  const ticket: unknown = Reflect.get(Object(run), 'ticket')
  const said: unknown = Reflect.get(Object(ticket), 'identifier')
  return harmless(typeof said === 'string' ? said : runId)
    .replace(/\s/g, ' ')
    .slice(0, TITLE_CHARS_MAX)
}

// ---- on a terminal -------------------------------------------------------------------------------------------------

async function onTerminal(visit: Visit, name: string): Promise<AttachmentEnd> {
  const [input, output] = [process.stdin, process.stdout]
  // Asked before; it tells the compiler.
  if (!(input instanceof ReadStream) || !(output instanceof WriteStream)) throw new Error('no terminal')
  const terminal = new OwnTerminal({ input, output })
  const leave = new AbortController()
  mindEnds(() => terminal.giveBack())
  output.write(`${name}: attaching. To detach: ${visit.keys.name}\r\n`)
  const title = `${name} · detach: ${visit.keys.name}`
  terminal.lend(title)
  const wishes = new Set<() => void>()
  mindStops(terminal, title, wishes)
  const typist = new Typist(realClock, (isFull) => void (isFull ? input.pause() : input.resume()))
  output.on('resize', () => typist.resize(terminal.size()))
  listen(typist, new DetachWatch(visit.keys), leave)
  try {
    return await stayAttached({
      ...visit,
      clock: realClock,
      typist,
      size: () => terminal.size(),
      draw: (text) => terminal.draw(text),
      note: (text) => terminal.note(`${text} (to detach: ${visit.keys.name})`),
      leave: leave.signal,
      onAnew: (wish) => {
        wishes.add(wish)
        return () => void wishes.delete(wish)
      },
    })
  } finally {
    terminal.quieten()
    await pause(LAST_REPORTS_MS)
    terminal.giveBack()
    // Listened to, it would keep this process.
    input.pause()
  }
}

function listen(typist: Typist, watch: DetachWatch, leave: AbortController): void {
  const { stdin } = process
  const decoder = new StringDecoder('utf8')
  stdin.on('data', (bytes: Buffer) => {
    if (leave.signal.aborted) return
    const { text, detach } = watch.hear(decoder.write(bytes))
    if (text !== '') typist.type(text)
    if (detach) leave.abort()
  })
  // A terminal whose window was closed; its signal may not have reached us.
  stdin.on('close', () => process.exit(EXIT_HUNG_UP))
}

// ---- without one ---------------------------------------------------------------------------------------------------

async function onStreams(visit: Visit): Promise<AttachmentEnd> {
  const { stdin, stdout, stderr } = process
  const leave = new AbortController()
  const note = (text: string) => void stderr.write(`switchyard: ${text}\n`)
  const output = new PipedOutput(stdout, note)
  mindEnds(() => {})
  // Whoever read along has had enough.
  stdout.on('error', () => leave.abort())
  const typist = new Typist(realClock, (isFull) => void (isFull ? stdin.pause() : stdin.resume()))
  stdin.setEncoding('utf8')
  stdin.on('data', (text) => typist.type(String(text)))
  stdin.on('end', () => typist.type(END_OF_INPUT))
  const end = await stayAttached({
    ...visit,
    clock: realClock,
    typist,
    size: () => sizeOf(stdout),
    draw: (text) => output.draw(text),
    note,
    leave: leave.signal,
    onAnew: (wish) => output.onAnew(wish),
  })
  await output.flushed()
  return end
}

// ---- the end -------------------------------------------------------------------------------------------------------

async function farewell({ find, runId, options }: Visit): Promise<string> {
  if (options.keep === true) return 'detached; the session ends by itself when nobody comes back soon'
  try {
    await askHost(await find(), { method: 'POST', path: pathOf(runId, '/release'), ms: RELEASE_MS_MAX })
    return 'detached; the sandbox is released, and its disk is kept'
  } catch (error) {
    if (!(error instanceof Ending)) throw error
    return `detached; the sandbox could not be released, and ends by itself: ${error.message}`
  }
}

function codeOf(end: AttachmentEnd): number {
  if (end.is === 'left') return EXIT.done
  if (end.is !== 'exited') return end.is === 'refused' ? EXIT.refused : EXIT.unavailable
  const isOne = Number.isInteger(end.code) && end.code >= 0 && end.code <= EXIT_CODE_MAX
  return isOne ? end.code : EXIT_CODE_MAX
}
