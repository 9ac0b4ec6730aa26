/**
 * The one comment of a follow-up. It bears a marker, which is looked for before each try to post it: the answer to an
 * earlier try may have been lost, or another worker may have come first.
 */
import type { CodeHost } from '../../core/ports.ts'
import { type Answer, no, yes } from '../../core/refusal.ts'
import { isPassing, type Patience, patiently, publishing, type Tried } from './patience.ts'
import type { TellWhy } from './sources.ts'

export interface TalkPlace {
  readonly codehost: CodeHost
  readonly remote: string
  readonly number: number
  readonly told?: TellWhy | undefined
}

export function isSaid(
  parts: Patience,
  { codehost, remote, number, told }: TalkPlace,
  marker: string,
  signal: AbortSignal,
): Promise<Answer<boolean>> {
  const attempt = async (): Promise<Tried<boolean>> => {
    const found = await codehost.hasComment(remote, number, marker)
    return { answer: found, passes: !found.ok && isPassing(found.refusal.kind) }
  }
  return patiently(parts, signal, attempt, publishing(told))
}

export function sayOnce(
  parts: Patience,
  { codehost, remote, number, told }: TalkPlace,
  { marker, body }: { readonly marker: string; readonly body: string },
  fence: () => boolean,
  signal: AbortSignal,
): Promise<Answer<void>> {
  const attempt = async (): Promise<Tried<void>> => {
    const found = await codehost.hasComment(remote, number, marker)
    if (!found.ok) return { answer: found, passes: isPassing(found.refusal.kind) }
    if (found.value) return { answer: yes(undefined), passes: false }
    if (signal.aborted || !fence()) return { answer: ended, passes: false }
    const said = await codehost.comment(remote, number, body)
    return { answer: said, passes: !said.ok && isPassing(said.refusal.kind) }
  }
  return patiently(parts, signal, attempt, publishing(told))
}

const ended = no(
  'conflict',
  'the lease is gone, so the follow-up’s comment is left to whoever goes on with it',
)
