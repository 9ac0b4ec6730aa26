/** `switchyard inspect --record FILE`: writes what the actors of a host do, until it is stopped; a host that is started again goes on in it. */
import { open } from 'node:fs/promises'
import type { ClientConnection } from '../../client/connection.ts'
import { InspectFeed } from '../../client/inspect-feed.ts'
import { StoryLines } from '../../core/inspection/story-lines.ts'
import type { InspectFrame, StoryLine } from '../../protocol/inspection.ts'
import { STORY_BYTES_MAX } from '../../protocol/limits.ts'

export interface RecordedStory {
  readonly records: number
  readonly bytes: number
  /** How many records the host left out because this machine was too slow. */
  readonly lost: number
  /** Why it ended. */
  readonly reason: string
}

export interface StoryRecording {
  /** Resolves when the file is complete. */
  readonly ended: Promise<RecordedStory>
  stop(reason: string): void
}

/** Refuses by its promise when the file cannot be made, or there is no host. */
export async function recordStory(
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
