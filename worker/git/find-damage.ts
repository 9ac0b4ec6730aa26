/**
 * `findDamage` says what is damaged in a checkout, if anything is, by reading what a collection reads: the index, the files
 * of HEAD, and the commits beyond the base. Nothing is written, so a full disk is no damage.
 */

import type { GitWorkspace } from './checkout.ts'
import { failureOf, scriptCommand } from './git-inside-sandbox.ts'

const READ_MS_MAX = 15 * 60_000

/** $1 the commit at which the work began */
const READ_SCRIPT = `
export GIT_NO_REPLACE_OBJECTS=1
cd /work
git ls-files > /dev/null
head=$(git rev-parse --verify 'HEAD^{commit}')
git ls-tree -r -t "$head" > /dev/null
if ! git merge-base --is-ancestor "$head" "$1"; then git bundle create --quiet - HEAD "^$1" > /dev/null; fi
`

export async function findDamage(
  sandbox: GitWorkspace['sandbox'],
  base: string,
): Promise<string | undefined> {
  const read = await sandbox.run(scriptCommand(READ_SCRIPT, base), { timeoutMs: READ_MS_MAX })
  const isEnded =
    read.code !== undefined && read.startFailure === undefined && read.timedOutMinutes === undefined
  return isEnded ? failureOf(read) : undefined
}
