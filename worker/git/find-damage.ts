/**
 * `findDamage` says what is damaged in a checkout, if anything is, by reading what a collection reads: the index, the files
 * of the newest commit, and the commits beyond the base. Nothing is written, so a full disk is no damage. A verdict drops
 * the work for good, so only what git calls corrupt counts: a machine without processes or threads says nothing about it.
 * A file that its user may not read is corrupt to git, so such files are looked for first.
 */

import type { GitWorkspace } from './checkout.ts'
import { explainFailure, lastLines } from './git-errors.ts'
import { scriptCommand } from './git-inside-sandbox.ts'

const READ_MS_MAX = 15 * 60_000

/** $1 the commit at which the work began, $2 the run's branch, which has the work where HEAD has none */
const READ_SCRIPT = `
export GIT_NO_REPLACE_OBJECTS=1
cd /work
closed=$(find .git \\( -type d ! -perm -500 -o -type f ! -perm -400 \\) 2> /dev/null | head -n 1)
if [ -n "$closed" ]; then echo "fatal: $closed: Permission denied"; exit 1; fi
git ls-files > /dev/null
ref=HEAD
head=$(git rev-parse --verify 'HEAD^{commit}') || head=
if [ -z "$head" ] || git merge-base --is-ancestor "$head" "$1"; then
  if git rev-parse --verify --quiet "refs/heads/$2^{commit}" > /dev/null; then ref="refs/heads/$2"; fi
fi
head=$(git rev-parse --verify "$ref^{commit}")
git ls-tree -r -t "$head" > /dev/null
if ! git merge-base --is-ancestor "$head" "$1"; then git bundle create --quiet - "$ref" "^$1" > /dev/null; fi
`

export async function findDamage(
  sandbox: GitWorkspace['sandbox'],
  { base, branch }: { readonly base: string; readonly branch: string },
): Promise<string | undefined> {
  const read = await sandbox.run(scriptCommand(READ_SCRIPT, base, branch), { timeoutMs: READ_MS_MAX })
  const isEnded = read.startFailure === undefined && read.timedOutMinutes === undefined
  if (!isEnded || read.code === undefined || read.code === 0) return undefined
  const { errorKind } = explainFailure('reading the checkout', read.output)
  return errorKind === 'corrupt' ? lastLines(read.output) : undefined
}
