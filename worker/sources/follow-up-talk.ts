/**
 * The one comment of a follow-up. It bears a marker, which is looked for before each try to post it: the answer to an
 * earlier try may have been lost, or another worker may have come first.
 */
import type { CodeHost } from '../../core/ports.ts'
import { type Answer, no, type RefusalKind, yes } from '../../core/refusal.ts'
import { type Patience, patiently } from './patience.ts'

export interface TalkPlace {
  readonly codehost: CodeHost
  readonly remote: string
  readonly number: number
}

export function isSaid(
  parts: Patience,
  { codehost, remote, number }: TalkPlace,
  marker: string,
  signal: AbortSignal,
): Promise<Answer<boolean>> {
  return patiently(parts, signal, async () => {
    const found = await codehost.hasComment(remote, number, marker)
    return { answer: found, passes: !found.ok && isPassing(found.refusal.kind) }
  })
}

export function sayOnce(
  parts: Patience,
  { codehost, remote, number }: TalkPlace,
  { marker, body }: { readonly marker: string; readonly body: string },
  fence: () => boolean,
  signal: AbortSignal,
): Promise<Answer<void>> {
  return patiently<void>(parts, signal, async () => {
    const found = await codehost.hasComment(remote, number, marker)
    if (!found.ok) return { answer: found, passes: isPassing(found.refusal.kind) }
    if (found.value) return { answer: yes(undefined), passes: false }
    if (signal.aborted || !fence()) return { answer: ended, passes: false }
    const said = await codehost.comment(remote, number, body)
    return { answer: said, passes: !said.ok && isPassing(said.refusal.kind) }
  })
}

const ended = no(
  'conflict',
  'the lease is gone, so the follow-up’s comment is left to whoever goes on with it',
)

function isPassing(kind: RefusalKind): boolean {
  return kind === 'failed' || kind === 'unavailable'
}
