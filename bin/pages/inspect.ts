/**
 * `switchyard inspect`: watches the actors of a host in a browser, records a story of them, or opens a recorded one.
 */
import { open, readFile, rm, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import type { ClientConnection } from '../../client/connection.ts'
import { reasonOf } from '../../client/errors.ts'
import { InspectFeed } from '../../client/host-feed.ts'
import { checkStory, StoryLines } from '../../core/inspection/story.ts'
import type { InspectFrame, StoryLine } from '../../protocol/inspection.ts'
import { type Reply, text } from '../../transport/reply.ts'
import { EXIT, ExitError, refusedError, usageError } from '../process/exit.ts'
import { connectToHost } from '../process/host-connection.ts'
import { openLog } from '../process/log.ts'
import { LogRedactor } from '../process/log-redaction.ts'
import { StopSignals } from '../process/signals.ts'
import { programsOf } from './inspection-programs.ts'
import { INSPECTOR_PAGE, STORY_PAGE } from './page-kinds.ts'
import { type ServePageOptions, servePage } from './serve-page.ts'

/** A story that is opened; one that is recorded ends at this size. */
const STORY_BYTES_MAX = 256 * 1024 * 1024

export interface InspectOptions extends ServePageOptions {
  readonly record?: string
}

export async function inspect(story: string | undefined, options: InspectOptions): Promise<void> {
  if (story !== undefined && options.record !== undefined)
    throw usageError('a story is opened or recorded, not both; leave out one of the two files')
  if (options.record !== undefined) await record(options.record, options)
  else if (story !== undefined)
    await servePage(STORY_PAGE, options, { documents: storyDocument(await readStory(story)) })
  else await servePage(INSPECTOR_PAGE, options, { programs: programsOf })
}

const storyDocument = (reply: Reply) => new Map([['/story', () => reply]])

async function record(path: string, options: InspectOptions): Promise<void> {
  const log = openLog({ level: options.logLevel, format: options.logFormat, redactor: new LogRedactor() })
  const signals = new StopSignals(log)
  const connection = connectToHost(options.dataDir, process.env)
  const print = (sentence: string) => process.stderr.write(`${sentence}\n`)
  let isFirst = true
  const onStart = () => {
    print(isFirst ? `Recording what the actors do into ${path}. Ctrl-C ends the story.` : 'The host is back.')
    isFirst = false
  }
  const onLost = (reason: string) => print(`The host is away (${reason}); the story waits for it.`)
  const recording = await recordStory(connection, path, onStart, onLost).catch((error: unknown) => {
    throw refusedError(`${path} can't be written: ${reasonOf(error)}`)
  })
  signals.onStop(() => recording.stop(''))
  try {
    const { records, bytes, lost, reason } = await recording.ended
    if (reason !== '') print(reason)
    if (lost > 0) print(`${lost} records are missing, because this machine was too slow.`)
    print(
      `${records} records, ${Math.ceil(bytes / 1024)} KiB. Open them with: switchyard inspect ${basename(path)}`,
    )
  } catch (error) {
    await rm(path, { force: true })
    throw error
  }
  process.exit(EXIT.done)
}

/** Reads a recorded story for the page that replays it. */
async function readStory(path: string): Promise<Reply> {
  const refuse = (why: string): never => {
    throw refusedError(`${path} can't be opened as a story: ${why}`)
  }
  try {
    const { size } = await stat(path)
    if (size > STORY_BYTES_MAX) refuse(`it has more than ${STORY_BYTES_MAX / 1024 / 1024} MiB`)
    const story = checkStory(await readFile(path, 'utf8'))
    if (!story.ok) return refuse(story.refusal.message)
    if (story.value.isIncomplete)
      process.stderr.write(`${path} has no end: it was killed while it was recorded, or its disk was full.\n`)
    return text(story.value.text, 'application/x-ndjson')
  } catch (error) {
    return error instanceof ExitError ? Promise.reject(error) : refuse(reasonOf(error))
  }
}

// ---- recording -----------------------------------------------------------------------------------------------------

interface RecordedStory {
  readonly records: number
  readonly bytes: number
  /** How many records the host left out because this machine was too slow. */
  readonly lost: number
  /** Why it ended. */
  readonly reason: string
}

interface StoryRecording {
  /** Resolves when the file is complete. */
  readonly ended: Promise<RecordedStory>
  stop(reason: string): void
}

/** Refuses by its promise when the file cannot be made, or there is no host. */
async function recordStory(
  connection: ClientConnection,
  path: string,
  onStart: () => void,
  onLost: (reason: string) => void,
): Promise<StoryRecording> {
  // The story tells what people work on; it is theirs alone.
  const file = await open(path, 'wx', 0o600)
  const story = new StoryLines({ source: 'host', title: '' })
  let bytes = 0
  let reason: string | undefined
  let written: Promise<unknown> = Promise.resolve()
  let finish: (error?: Error) => void = () => {}
  const over = new Promise<void>((resolve, reject) => {
    finish = (error) => (error === undefined ? resolve() : reject(error))
  })
  const write = (lines: readonly StoryLine[]): void => {
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('')
    bytes += Buffer.byteLength(text)
    written = written.then(() => file.write(text)).catch((error: Error) => finish(error))
  }
  const stop = (why: string): void => {
    if (reason !== undefined) return
    reason = why
    feed.close()
    write([story.end(Date.now())])
    finish()
  }
  const onFrame = (frame: InspectFrame): void => {
    if (reason !== undefined) return
    write(story.translate(frame))
    if (frame.type === 'inspect-hello') onStart()
    if (bytes > STORY_BYTES_MAX) stop(`The story has ${STORY_BYTES_MAX / 1024 / 1024} MiB, its limit.`)
  }
  const feed = new InspectFeed(connection, {
    onFrame,
    onLost,
    onEnd: (error) => finish(error),
  })
  feed.follow({ actors: [], all: true, details: true })
  const ended = over
    .then(() => written)
    .then(() => ({ records: story.records, bytes, lost: story.lost, reason: reason ?? '' }))
    .finally(() => file.close())
  return { ended, stop }
}
