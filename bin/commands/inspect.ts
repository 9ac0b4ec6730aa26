/**
 * `switchyard inspect`: watches the actors of a host in a browser, records a story of them, or opens a recorded one.
 */
import { rm } from 'node:fs/promises'
import { basename } from 'node:path'
import { reasonOf } from '../../client/errors.ts'
import type { Reply } from '../../transport/reply.ts'
import { connectToHost } from '../client/host-connection.ts'
import { EXIT, ExitError } from '../exit.ts'
import { programsOf } from '../inspect/inspection-programs.ts'
import { readStory } from '../inspect/read-story.ts'
import { recordStory } from '../inspect/record-story.ts'
import { openLog } from '../log.ts'
import { LogRedactor } from '../log-redaction.ts'
import { INSPECTOR_PAGE, STORY_PAGE } from '../pages/page-kinds.ts'
import { type ServePageOptions, servePage } from '../pages/serve-page.ts'
import { StopSignals } from '../signals.ts'

export interface InspectOptions extends ServePageOptions {
  readonly record?: string
}

export async function inspect(story: string | undefined, options: InspectOptions): Promise<void> {
  if (story !== undefined && options.record !== undefined)
    throw new ExitError(EXIT.usage, 'a story is opened or recorded, not both; leave out one of the two files')
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
    throw new ExitError(EXIT.refused, `${path} can't be written: ${reasonOf(error)}`)
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
