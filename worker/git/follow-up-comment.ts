/**
 * The one comment of a follow-up. It bears a marker, which is looked for before each try to post it: the answer to an
 * earlier try may have been lost, or another worker may have come first.
 *
 * What a worker sent with its last breath the code host may take in after that look. So whoever takes a follow-up over
 * gives it a moment first, and whoever finds or makes the comment takes away what repeats it: all keep the first one.
 */
import type { CodeHost } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { TellWhy } from './git-ports.ts'
import { isPassing, type Patience, patiently, pause, publishing, type Tried } from './retry.ts'

export interface TalkPlace {
  readonly codehost: CodeHost
  readonly remote: string
  readonly number: number
  readonly told?: TellWhy | undefined
}

/** GitHub gives up on a request after ten seconds; nearly all are done in one, and to take over takes some as well. */
const LATE_MS = 5_000

export async function isSaid(
  parts: Patience,
  place: TalkPlace,
  marker: string,
  signal: AbortSignal,
): Promise<Result<boolean>> {
  const attempt = async (): Promise<Tried<boolean>> => {
    const found = await place.codehost.hasComment(place.remote, place.number, marker)
    return { answer: found, passes: !found.ok && isPassing(found.refusal.kind) }
  }
  const said = await patiently(parts, signal, attempt, publishing(place.told))
  if (said.ok && said.value && !signal.aborted) await dropRepeats(place, marker)
  return said
}

export interface Words {
  readonly marker: string
  readonly body: string
  /** Somebody may have sent it before, and be gone. */
  readonly isTakenOver: boolean
}

export async function sayOnce(
  parts: Patience,
  place: TalkPlace,
  { marker, body, isTakenOver }: Words,
  fence: () => boolean,
  signal: AbortSignal,
): Promise<Result<void>> {
  const { codehost, remote, number, told } = place
  let mayBeLate = isTakenOver
  const attempt = async (): Promise<Tried<void>> => {
    const found = await codehost.hasComment(remote, number, marker)
    if (!found.ok) return { answer: found, passes: isPassing(found.refusal.kind) }
    if (found.value) return { answer: yes(undefined), passes: false }
    if (mayBeLate) {
      mayBeLate = false
      await pause(LATE_MS, parts.clock, signal)
      return attempt()
    }
    if (signal.aborted || !fence()) return { answer: ended, passes: false }
    const said = await codehost.comment(remote, number, body)
    return { answer: said, passes: !said.ok && isPassing(said.refusal.kind) }
  }
  const said = await patiently(parts, signal, attempt, publishing(told))
  if (said.ok && !signal.aborted) await dropRepeats(place, marker)
  return said
}

/** It is said, and that is what counts. */
async function dropRepeats({ codehost, remote, number, told }: TalkPlace, marker: string): Promise<void> {
  // On a line of its own: somebody may quote it.
  const dropped = await codehost.dropRepeats(remote, number, `\n${marker}`)
  if (!dropped.ok)
    told?.(`whether the follow-up’s comment is there twice could not be seen to: ${dropped.refusal.message}`)
  else if (dropped.value > 0) told?.('the follow-up’s comment was there more than once: the first one stays')
}

const ended = no(
  'conflict',
  'the lease is gone, so the follow-up’s comment is left to whoever goes on with it',
)
