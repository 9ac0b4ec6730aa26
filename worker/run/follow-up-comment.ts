/**
 * The one comment that a follow-up leaves on its pull request: what was done, in the agent's words where there was one,
 * and a marker that people don't see.
 */
import { followUpMarker } from '../../core/run/follow-up.ts'
import { toSingleLine, truncate } from '../../core/safe-text.ts'
import type { JobPull } from '../../protocol/frames.ts'
import type { Begun, FollowedUp } from '../git/git-ports.ts'
import { harmless } from '../git/pull-request-text.ts'

/** Code hosts take some 65,000 characters. */
const SAID_CHARS_MAX = 40_000
const FILES_NAMED_MAX = 10
const SHA_SHOWN = 12

export interface Done {
  readonly pull: Pick<JobPull, 'baseBranch'>
  readonly begun: Begun
  readonly followed: FollowedUp
  /** The agent's last words; empty when there was none. */
  readonly said: string
}

/** Without the marker: for the run's own record, too. */
export function followUpText({ pull, begun, followed, said }: Done): string {
  const base = code(pull.baseBranch)
  const words = truncate(harmless(said).trim(), SAID_CHARS_MAX)
  const what =
    begun.state === 'pushed'
      ? `The branch was brought up to date with ${base}.`
      : `${brought(base, begun, followed)} ${outcome(followed)}`
  return words === '' ? what : `${what}\n\n${words}`
}

export function followUpBody(text: string, id: string): string {
  return `${text}\n\n${followUpMarker(id)}`
}

function brought(base: string, begun: Begun, { isContained }: FollowedUp): string {
  if (isContained) return `All of this branch is in ${base} already.`
  const at = `${base} (${begun.base.slice(0, SHA_SHOWN)})`
  if (begun.state === 'level') return `The branch holds the newest ${at} already.`
  if (begun.state === 'rebased') return `The branch was rebased onto the newest ${at}, without conflicts.`
  const files = begun.files.slice(0, FILES_NAMED_MAX).map(code).join(', ')
  return `The branch was rebased onto the newest ${at}; conflicts in ${files} were resolved.`
}

function outcome({ pushed }: FollowedUp): string {
  if (pushed === undefined) return 'Nothing was changed, so nothing was pushed.'
  return `Pushed as ${pushed.slice(0, SHA_SHOWN)}.`
}

/** A name must not end what it stands in. */
const code = (name: string): string => `\`${toSingleLine(name).replaceAll('`', "'")}\``
