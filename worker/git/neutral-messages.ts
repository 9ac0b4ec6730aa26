/**
 * `neutralizeMessages` takes the effects out of the messages of a run's commits: a message that is merged closes the
 * issues that it names, and notifies people.
 *
 * Commits are written anew only where a message has such an effect. Their contents stay.
 */
import { no, type Result, yes } from '../../core/result.ts'
import type { Git } from './git.ts'
import { neutralizeMessage } from './neutral-markup.ts'
import { type CommitRange, type RewritePlace, rewriteCommits } from './rewrite-commits.ts'

const LOCAL_MS_MAX = 60_000

/** Returns the head of the commits with neutral messages. */
export async function neutralizeMessages(
  git: Git,
  place: RewritePlace,
  range: CommitRange,
): Promise<Result<string>> {
  const rewritten = await rewriteCommits(git, place, range, { changeMessage: neutralizeMessage })
  if (!rewritten.ok) return rewritten
  const head = rewritten.value
  if (head === range.head) return yes(head)
  if (head === undefined) return no('failed', 'writing the commits anew lost them, so nothing was pushed')
  const trees = await git.runChecked('comparing the commits', {
    args: ['rev-parse', `${head}^{tree}`, `${range.head}^{tree}`],
    folder: place.folder,
    isUntrusted: true,
    timeoutMs: LOCAL_MS_MAX,
  })
  if (!trees.ok) return trees
  const [after, before] = trees.value.output.split('\n')
  if (after === before) return yes(head)
  return no('failed', 'writing the commits anew changed their files, so nothing was pushed')
}
