/** Reads a recorded story for the page that replays it. */
import { readFile, stat } from 'node:fs/promises'
import { reasonOf } from '../../client/errors.ts'
import { checkStory } from '../../core/inspection/story.ts'
import { STORY_BYTES_MAX } from '../../protocol/limits.ts'
import { type Reply, text } from '../../transport/reply.ts'
import { EXIT, ExitError } from '../exit.ts'

export async function readStory(path: string): Promise<Reply> {
  const refuse = (why: string): never => {
    throw new ExitError(EXIT.refused, `${path} can't be opened as a story: ${why}`)
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
