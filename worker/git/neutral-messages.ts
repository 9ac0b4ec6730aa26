/**
 * `neutralizeMessages` takes the effects out of the messages of a run's commits: a message that is merged closes the
 * issues that it names, and notifies people.
 *
 * Commits are written anew only where a message has such an effect. Their contents stay. So does a message that the
 * branch has on the code host already: a rebase writes the commits of people anew, whose words they are.
 */
import { createHash } from 'node:crypto'
import { no, type Result, yes } from '../../core/result.ts'
import type { Git } from './git.ts'
import type { CheckedOut } from './git-ports.ts'
import { neutralizeMessage } from './neutral-markup.ts'
import { knownCommits, type RewritePlace, readMessages, rewriteCommits } from './rewrite-commits.ts'

const LOCAL_MS_MAX = 60_000

/** Returns the head of the commits with neutral messages. */
export async function neutralizeMessages(
  git: Git,
  place: RewritePlace,
  workHead: string,
  from: CheckedOut,
): Promise<Result<string>> {
  const range = { head: workHead, known: knownCommits(from) }
  const all = await rewriteCommits(git, place, range, { changeMessage: neutralizeMessage })
  const { base, pushedBefore } = from
  if (!all.ok || all.value === workHead || pushedBefore === undefined)
    return checkFiles(git, place, workHead, all)
  const published = new Set<string>()
  // Messages that cannot be read count as the agent's.
  await readMessages(git, place, { head: pushedBefore, known: [base] }, (message) =>
    published.add(digestOf(message)),
  )
  const changeMessage = (message: Buffer): Buffer =>
    published.has(digestOf(message)) ? message : neutralizeMessage(message)
  const others = await rewriteCommits(git, place, range, { changeMessage })
  return checkFiles(git, place, workHead, others)
}

/** Git may remove blanks and empty lines from a message when it writes the commit anew. */
function digestOf(message: Buffer): string {
  const lines = message.toString('latin1').split('\n')
  const text = lines.map((line) => line.trimEnd()).join('\n')
  return createHash('sha256')
    .update(text.replace(/\n{3,}/g, '\n\n').trim())
    .digest('hex')
}

/** Refuses commits whose last one has other files than the head of the work. */
async function checkFiles(
  git: Git,
  place: RewritePlace,
  workHead: string,
  rewritten: Result<string | undefined>,
): Promise<Result<string>> {
  if (!rewritten.ok) return rewritten
  const head = rewritten.value
  if (head === workHead) return yes(head)
  if (head === undefined) return no('failed', 'writing the commits anew lost them, so nothing was pushed')
  const trees = await git.runChecked('comparing the commits', {
    args: ['rev-parse', `${head}^{tree}`, `${workHead}^{tree}`],
    folder: place.folder,
    isUntrusted: true,
    timeoutMs: LOCAL_MS_MAX,
  })
  if (!trees.ok) return trees
  const [after, before] = trees.value.output.split('\n')
  if (after === before) return yes(head)
  return no('failed', 'writing the commits anew changed their files, so nothing was pushed')
}
