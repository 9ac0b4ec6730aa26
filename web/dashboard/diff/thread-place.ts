/**
 * Finds the line of a thread. A thread names its line but not its side, so the last line of its hunk tells: a removed
 * line stands on the left.
 */
import type { PullThread } from '../../../protocol/pulls.ts'
import { type LinePlace, placeKey } from './diff-rows.ts'

type ThreadPlace = Pick<PullThread, 'path' | 'line' | 'diffHunk'>

/** Undefined for a thread whose line is not in the diff any more. @param places the keys of all places of the diff */
export function placeOfThread(
  { path, line, diffHunk }: ThreadPlace,
  places: ReadonlySet<string>,
): LinePlace | undefined {
  if (line === undefined) return undefined
  const isRemoved = diffHunk.trimEnd().split('\n').at(-1)?.startsWith('-') === true
  const sides = isRemoved ? (['LEFT', 'RIGHT'] as const) : (['RIGHT', 'LEFT'] as const)
  return sides.map((side) => ({ path, line, side })).find((place) => places.has(placeKey(place)))
}
