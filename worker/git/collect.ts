/**
 * The way out: what is left is committed inside, comes out as a bundle, and becomes a clean bare repository outside.
 *
 * The work is what HEAD holds beyond the base, wherever HEAD is; only when it holds nothing, what the run's branch
 * holds. An operation that the agent left halfway is undone first, so that no conflict marks are committed. What the
 * agent made is believed in nothing: outside, git takes the objects one by one, and the commit must descend from the
 * base. The figures are reckoned outside too.
 */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../../core/result.ts'
import { toSingleLine, truncate } from '../../core/safe-text.ts'
import type { Ticket } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { OUT_REF, takeBundle } from './bundle-import.ts'
import type { Errand } from './checkout.ts'
import { figures } from './diff-stats.ts'
import { COMMITTER, EXCHANGE_INSIDE, faultOf, scriptCommand } from './git-inside-sandbox.ts'
import type { CheckedOut, Collected, InsideResult } from './git-ports.ts'
import type { Wanted } from './mirror-cache.ts'
import { cleanRepository, type DeskParts, receive } from './run-repository.ts'

export interface CollectParts extends DeskParts {
  readonly bundleBytesMax?: number
}

export const BUNDLE = 'work.bundle'
const PACK = 'work.pack'
const BUNDLE_BYTES_MAX = 1024 * 1024 * 1024
export const INSIDE_MS_MAX = 15 * 60_000
const MESSAGE_CHARS_MAX = 100
/** In front of what the script could not take along, on a line of its own. */
const LEFT_OUT = 'left out: '
const LEFT_OUT_MAX = 20

/** Git as no setting and no hook of the repository's changes it; needs `name` and `email`. */
export const OWN_GIT = `g() {
  git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c commit.gpgSign=false -c gc.auto=0 \\
    -c maintenance.auto=false -c user.name="$name" -c user.email="$email" -c advice.addEmbeddedRepo=false "$@"
}
`

/** Everything that is not ignored becomes a commit; needs `state`, the folder of git's own, and `message`. */
export const COMMIT_LEFT = `rm -f "$state/index.lock"
g add --all --ignore-errors || echo "${LEFT_OUT}files that git could not add"
g diff --cached --raw --no-renames --diff-filter=A | sed -n 's/^:000000 160000 [0-9a-f.]* [0-9a-f.]* A\\t//p' |
  while IFS= read -r nested; do
    g rm --quiet --cached --force -- ":(literal)$nested" || :
    printf '${LEFT_OUT}%s, which is a repository of its own\\n' "$nested"
  done
if [ -f "$state/MERGE_HEAD" ] || ! g diff --cached --quiet; then g commit --quiet --no-verify -m "$message"; fi
`

/** $1 base, $2 branch, $3 message, $4 name, $5 email */
const SCRIPT = `
export GIT_NO_REPLACE_OBJECTS=1
base=$1 branch=$2 message=$3 name=$4 email=$5
cd /work
${OWN_GIT}state=$(git rev-parse --absolute-git-dir)
if [ -f "$state/rebase-apply/applying" ]; then g am --abort || g am --quit
elif [ -d "$state/rebase-merge" ] || [ -d "$state/rebase-apply" ]; then g rebase --abort || g rebase --quit
fi
if [ -f "$state/BISECT_START" ]; then g bisect reset --quiet || g bisect reset; fi
if [ -n "$(g ls-files --unmerged | head -c 1)" ]; then g reset --quiet --merge; fi
${COMMIT_LEFT}head=$(g rev-parse --verify --quiet 'HEAD^{commit}') || head=
if [ -z "$head" ] || g merge-base --is-ancestor "$head" "$base"; then
  other=$(g rev-parse --verify --quiet "refs/heads/$branch^{commit}") || other=
  head=\${other:-$head}
fi
if [ -z "$head" ]; then echo "there is no commit in the checkout" >&2; exit 1; fi
if g merge-base --is-ancestor "$head" "$base"; then exit 0; fi
g update-ref ${OUT_REF} "$head"
g bundle create --quiet ${EXCHANGE_INSIDE}/${BUNDLE} ${OUT_REF} "^$base"
`

const NOTHING: Collected = { commits: 0, diff: { files: 0, additions: 0, deletions: 0, text: '' } }

export async function collect(
  parts: CollectParts,
  errand: Errand,
  from: CheckedOut,
): Promise<Result<Collected>> {
  const { folders } = errand
  const bundle = join(folders.exchange, BUNDLE)
  await rm(bundle, { recursive: true, force: true })
  const result = await bundled(errand, from)
  const fault = faultOf(result)
  if (fault !== undefined) return no('failed', `collecting the work failed: ${fault}`)
  const collected = await broughtOut(parts, errand, from)
  return collected.ok ? yes(withLeftOut(collected.value, result.output)) : collected
}

/** What was bundled inside, as a commit in the clean repository; `also`: see there. */
export async function broughtOut(
  parts: CollectParts,
  { folders, wanted }: Pick<Errand, 'folders' | 'wanted'>,
  from: CheckedOut,
  also?: Wanted,
): Promise<Result<Collected>> {
  const bundle = join(folders.exchange, BUNDLE)
  await mkdir(folders.desk, { recursive: true, mode: 0o700 })
  const pack = join(folders.desk, PACK)
  const taken = await takeBundle(bundle, pack, parts.bundleBytesMax ?? BUNDLE_BYTES_MAX)
  await rm(bundle, { recursive: true, force: true })
  if (!taken.ok) return taken
  if (taken.value === undefined) return yes(NOTHING)
  const desk = await cleanRepository(parts, wanted, folders.desk, from.base, also)
  if (!desk.ok) return desk
  const entered = await receive(parts.git, desk.value, taken.value, from.base)
  await rm(pack, { force: true })
  return entered.ok ? figures(parts.git, desk.value, taken.value.head, from.base) : entered
}

function bundled({ job, folders, inside }: Errand, from: CheckedOut): Promise<InsideResult> {
  const { name, email } = COMMITTER
  const message = messageFor(job.run.ticket)
  return inside.run(scriptCommand(SCRIPT, from.base, job.branch, message, name, email), {
    mounts: [{ from: folders.exchange, to: EXCHANGE_INSIDE, writable: true }],
    timeoutMs: INSIDE_MS_MAX,
  })
}

/** The agent may take it for delivered, so people are told. */
export function withLeftOut(work: Collected, output: string): Collected {
  const lines = output.split('\n').filter((line) => line.startsWith(LEFT_OUT))
  if (lines.length === 0) return work
  const told = lines.slice(0, LEFT_OUT_MAX).map((line) => printable(line))
  const text = [work.diff.text, ...told].filter((part) => part !== '').join('\n')
  return { ...work, diff: { ...work.diff, text } }
}

export function messageFor({ identifier, title }: Pick<Ticket, 'identifier' | 'title'>): string {
  const subject = truncate(toSingleLine(`${identifier}: ${title}`), MESSAGE_CHARS_MAX)
  return `${subject}\n\nWhat the agent left uncommitted at its end.\n`
}
