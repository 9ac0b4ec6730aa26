/**
 * `fitToFrame` shortens a job until its frame is within the limit, the ticket's description first.
 */
import type { Job } from '../../protocol/frames.ts'
import { JOB_BYTES_MAX } from '../../protocol/limits.ts'
import { jsonBytes } from '../../protocol/text-budget.ts'
import { truncate } from '../safe-text.ts'

/** The most characters that one character can become in JSON. */
const ESCAPED_CHARS_MAX = 6
/** Space for everything but free text: keys, ids, names, links, labels. */
const FRAME_BYTES = 256 * 1024

/** Tells cheaply whether a job fits. Most jobs do, and serializing a job twice would be most of a dispatch's cost. */
function certainlyFits({ run, repo, agent, credentials, pull }: Job): boolean {
  if (pull !== undefined || agent === undefined) return false
  const login = credentials.agent?.value
  const texts = [
    run.ticket.description,
    run.ticket.title,
    repo.setup,
    agent.instructions,
    run.instructions,
    agent.command,
    login,
  ]
  const chars = [...texts, ...agent.memories].reduce((sum, text) => sum + (text?.length ?? 0), 0)
  return chars * ESCAPED_CHARS_MAX < JOB_BYTES_MAX - FRAME_BYTES
}

const TRUNCATED_NOTE = '\n\n(The description goes on in the tracker.)'

/** Truncates the description when the job is too large. Only a very long configuration leaves no space for it. */
export function fitToFrame<J extends Job>(job: J): J {
  if (certainlyFits(job)) return job
  const excess = jsonBytes(job) - JOB_BYTES_MAX
  if (excess <= 0) return job
  const { description } = job.run.ticket
  const descriptionBytesMax = jsonBytes(description) - excess - jsonBytes(TRUNCATED_NOTE)
  return withDescription(
    job,
    descriptionBytesMax <= 0
      ? ''
      : `${truncateToJsonBytes(description, descriptionBytesMax)}${TRUNCATED_NOTE}`,
  )
}

export function withDescription<J extends Job>(job: J, description: string): J {
  return { ...job, run: { ...job.run, ticket: { ...job.run.ticket, description } } }
}

/** Returns the longest beginning whose JSON has at most `bytesMax` bytes. */
function truncateToJsonBytes(text: string, bytesMax: number): string {
  let [fits, tooLong] = [0, text.length + 1]
  while (tooLong - fits > 1) {
    const middle = Math.floor((fits + tooLong) / 2)
    if (jsonBytes(truncate(text, middle)) <= bytesMax) fits = middle
    else tooLong = middle
  }
  return truncate(text, fits)
}

export function takeWithin(texts: readonly string[], bytesMax: number): string[] {
  let left = bytesMax
  return texts.filter((text) => {
    left -= jsonBytes(text) + 1
    return left >= 0
  })
}
