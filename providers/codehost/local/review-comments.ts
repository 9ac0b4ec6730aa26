/** Finds the lines of the diff that the comments of a review are about. */
import { findDiffHunk } from '../../../core/pulls/diff-line.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import type { ReviewLineComment } from '../../../protocol/pulls.ts'
import type { PlacedComment } from './pull-actions.ts'
import { readPullDiff } from './pull-state.ts'
import type { LocatedPull } from './rules.ts'

/** The first comment that has no line refuses the whole review. */
export async function placeComments(
  { repository, pull, refs }: LocatedPull,
  comments: readonly ReviewLineComment[],
): Promise<Result<readonly PlacedComment[]>> {
  if (comments.length === 0) return yes([])
  const diff = await readPullDiff(repository.run, pull, refs)
  if (!diff.ok) return diff
  const placed: PlacedComment[] = []
  for (const [index, comment] of comments.entries()) {
    const hunk = findDiffHunk(diff.value.files, comment)
    if (!hunk.ok) return no('invalid', `/comments/${index}: ${hunk.refusal.message}`)
    if (comment.body.trim() === '') return no('invalid', `/comments/${index}/body: must not be empty`)
    placed.push({ ...comment, hunk: hunk.value })
  }
  return yes(placed)
}
