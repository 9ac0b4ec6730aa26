/**
 * `collect` commits the remaining changes inside, exports the work as a bundle, and imports it outside into a clean
 * bare repository.
 *
 * The work is every commit of HEAD beyond the base; if HEAD has none, every commit of the run's branch. An unfinished
 * rebase, merge or bisect is undone first, so that no conflict markers are committed. Outside, the bundle is untrusted:
 * git checks each object, the commit must descend from the base, and the diff is computed there.
 */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { no, type Result, yes } from '../../../core/result.ts'
import { toSingleLine, truncate } from '../../../core/safe-text.ts'
import type { Ticket } from '../../../protocol/run.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { MarkedKey } from '../../secrets/key-forms.ts'
import { createRunSecretSearch, type OwnSecrets } from '../../secrets/run-secrets.ts'
import type { SecretSearch } from '../../secrets/secret-search.ts'
import type { GitWorkspace } from '../checkout/checkout.ts'
import {
  createRunRepository,
  forgetHead,
  importBundle,
  importPack,
  keepHead,
  OUT_REF,
  type RunRepositoryPorts,
  runRepositoryPath,
} from '../checkout/run-repository.ts'
import type { Git } from '../git.ts'
import { refuseCollecting } from '../git-errors.ts'
import { COMMITTER, EXCHANGE_INSIDE, failureOf, scriptCommand } from '../git-inside-sandbox.ts'
import type { CheckedOut, CollectedWork, SandboxCommandResult } from '../git-ports.ts'
import type { RemoteRepository } from '../mirror/mirror-cache.ts'
import { type CleanWork, computeDiffStats, holdBackCiChanges } from './held-back-changes.ts'
import { requireKeptCommits } from './kept-commits.ts'
import { knownCommits, neutralizeMessages, type RewritePlace } from './rewrite-commits.ts'
import { searchCommits } from './search-commits.ts'
import { BoundedStream, LOCAL_MS_MAX, WORK_PATHS_MAX, WORK_UNPACKED_BYTES_MAX } from './work-bounds.ts'

export interface CollectPorts extends RunRepositoryPorts {
  readonly ownSecrets?: OwnSecrets
  readonly bundleBytesMax?: number
  readonly unpackedBytesMax?: number
}

type ImportedWorkspace = Pick<GitWorkspace, 'job' | 'folders' | 'repository'> & {
  readonly search: SecretSearch
}

export const BUNDLE_FILE = 'work.bundle'
const PACK_FILE = 'work.pack'
const BUNDLE_BYTES_MAX = 1024 * 1024 * 1024
export const INSIDE_MS_MAX = 15 * 60_000
const MESSAGE_CHARS_MAX = 100
/** The prefix of the script's output lines that name omitted files. */
const OMITTED_PREFIX = 'left out: '
const OMITTED_LINES_MAX = 20

/** Defines the shell function `g`: git without the repository's hooks and settings. Needs `name` and `email`. */
export const GIT_FUNCTION = `g() {
  git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c commit.gpgSign=false -c gc.auto=0 \\
    -c maintenance.auto=false -c user.name="$name" -c user.email="$email" -c advice.addEmbeddedRepo=false "$@"
}
`

/** Drops the locks of a git that was killed; no process of the run is left that holds them. Needs `state`. */
export const DROP_LEFT_LOCKS = `find "$state" -name '*.lock' -delete
`

/** Commits all files that are not ignored. Needs `state` (the .git folder) and `message`. */
export const COMMIT_LEFTOVERS = `g add --all --ignore-errors || echo "${OMITTED_PREFIX}files that git could not add"
g diff --cached --raw --no-renames --diff-filter=A | sed -n 's/^:000000 160000 [0-9a-f.]* [0-9a-f.]* A\\t//p' |
  while IFS= read -r nested; do
    g rm --quiet --cached --force -- ":(literal)$nested" || :
    printf '${OMITTED_PREFIX}%s, which is a repository of its own\\n' "$nested"
  done
if [ -f "$state/MERGE_HEAD" ] || ! g diff --cached --quiet; then g commit --quiet --no-verify -m "$message"; fi
`

/** $1 base, $2 branch, $3 message, $4 name, $5 email */
const COLLECT_SCRIPT = `
export GIT_NO_REPLACE_OBJECTS=1
base=$1 branch=$2 message=$3 name=$4 email=$5
cd /work
${GIT_FUNCTION}state=$(git rev-parse --absolute-git-dir)
${DROP_LEFT_LOCKS}if [ -f "$state/rebase-apply/applying" ]; then g am --abort || g am --quit
elif [ -d "$state/rebase-merge" ] || [ -d "$state/rebase-apply" ]; then g rebase --abort || g rebase --quit
fi
if [ -f "$state/BISECT_START" ]; then g bisect reset --quiet || g bisect reset; fi
if [ -n "$(g ls-files --unmerged | head -c 1)" ]; then g reset --quiet --merge; fi
${COMMIT_LEFTOVERS}head=$(g rev-parse --verify --quiet 'HEAD^{commit}') || head=
if [ -z "$head" ] || g merge-base --is-ancestor "$head" "$base"; then
  other=$(g rev-parse --verify --quiet "refs/heads/$branch^{commit}") || other=
  head=\${other:-$head}
fi
if [ -z "$head" ]; then echo "there is no commit in the checkout" >&2; exit 1; fi
if g merge-base --is-ancestor "$head" "$base"; then exit 0; fi
g update-ref ${OUT_REF} "$head"
g bundle create --quiet ${EXCHANGE_INSIDE}/${BUNDLE_FILE} ${OUT_REF} "^$base"
`

const NO_WORK: CollectedWork = { commits: 0, diff: { files: 0, additions: 0, deletions: 0, text: '' } }

export async function collect(
  ports: CollectPorts,
  workspace: GitWorkspace,
  from: CheckedOut,
  signal?: AbortSignal,
): Promise<Result<CollectedWork>> {
  const { folders } = workspace
  const bundle = join(folders.exchange, BUNDLE_FILE)
  await rm(bundle, { recursive: true, force: true })
  await forgetHead(folders.staging, workspace.job.branch)
  const result = await bundleInside(workspace, from, signal)
  const fault = failureOf(result)
  if (fault !== undefined) return refuseCollecting(fault)
  const search = createRunSecretSearch(workspace.job, ports.ownSecrets)
  const collected = await importWork(ports, { ...workspace, search }, from)
  if (!collected.ok) return collected
  const { head } = collected.value
  if (head !== undefined) {
    const work = { head, branch: workspace.job.branch }
    const kept = await requireKeptCommits(ports.git, runRepositoryPath(folders.staging), work, from)
    if (!kept.ok) return kept
    await keepHead(folders.staging, work.branch, head)
  }
  return yes(withOmittedFiles(collected.value, result.output))
}

/**
 * Imports the bundle from the exchange folder into a new run repository, searches it for secrets, holds changes of CI
 * definitions back, and neutralizes messages; for `alternate` see `createRunRepository`.
 */
export async function importWork(
  ports: CollectPorts,
  { job, folders, repository, search }: ImportedWorkspace,
  start: CheckedOut,
  alternate?: RemoteRepository,
): Promise<Result<CollectedWork>> {
  const bundle = join(folders.exchange, BUNDLE_FILE)
  await mkdir(folders.staging, { recursive: true, mode: 0o700 })
  const pack = join(folders.staging, PACK_FILE)
  const imported = await importBundle(bundle, pack, ports.bundleBytesMax ?? BUNDLE_BYTES_MAX)
  await rm(bundle, { recursive: true, force: true })
  if (!imported.ok) return imported
  if (imported.value === undefined) return yes(NO_WORK)
  const staging = await createRunRepository(ports, repository, folders.staging, start.base, alternate)
  if (!staging.ok) return staging
  const received = await importPack(ports.git, staging.value, imported.value, start.base)
  await rm(pack, { force: true })
  if (!received.ok) return received
  const { head } = imported.value
  const place = { folder: staging.value, staging: folders.staging }
  const from = await withReachedBase(ports.git, place.folder, head, start)
  const known = knownCommits(from)
  const counted = await countPaths(ports.git, place.folder, head, from.base)
  if (!counted.ok) return counted
  const searchAt = (commit: string) =>
    searchCommits(ports.git, {
      ...place,
      head: commit,
      known,
      search,
      unpackedBytesMax: ports.unpackedBytesMax ?? WORK_UNPACKED_BYTES_MAX,
    })
  const searched = await searchAt(head)
  if (!searched.ok) return searched
  const clean: Result<CleanWork> =
    job.repo.allowWorkflows === true ? yes({ head }) : await holdBackCiChanges(ports.git, place, head, from)
  if (!clean.ok) return clean
  const { heldBack } = clean.value
  const work =
    clean.value.head === undefined
      ? yes(NO_WORK)
      : await describeWork(ports.git, place, clean.value.head, from)
  if (!work.ok) return work
  // Commits that were written anew may hold fewer keys, or others: a message without its hidden characters.
  const keys = await keysToPush(work.value.head, { head, keys: searched.value }, searchAt)
  if (!keys.ok) return keys
  return yes({
    ...work.value,
    ...(keys.value.length === 0 ? {} : { keys: keys.value }),
    ...(heldBack === undefined ? {} : { heldBack }),
  })
}

async function keysToPush(
  head: string | undefined,
  known: { readonly head: string; readonly keys: readonly MarkedKey[] },
  searchAt: (head: string) => Promise<Result<readonly MarkedKey[]>>,
): Promise<Result<readonly MarkedKey[]>> {
  if (head === undefined) return yes([])
  return head === known.head ? yes(known.keys) : searchAt(head)
}

/**
 * An agent may have rebased a branch, or merged into it: the commits of the base that came with that are not its own.
 */
async function withReachedBase(
  git: Git,
  folder: string,
  head: string,
  start: CheckedOut,
): Promise<CheckedOut> {
  if (start.baseTip === undefined) return start
  const found = await git.run({
    args: ['merge-base', start.baseTip, head],
    folder,
    isUntrusted: true,
    timeoutMs: LOCAL_MS_MAX,
  })
  const base = found.ok && found.value.code === 0 ? found.value.output.trim() : ''
  return base === '' ? start : { ...start, base }
}

/** Neutralizes the messages before, since that gives the commits new ids. */
async function describeWork(
  git: Git,
  place: RewritePlace,
  workHead: string,
  from: CheckedOut,
): Promise<Result<CollectedWork>> {
  const head = await neutralizeMessages(git, place, workHead, from)
  return head.ok ? computeDiffStats(git, place.folder, head.value, from.base) : head
}

function bundleInside(
  { job, folders, sandbox }: GitWorkspace,
  from: CheckedOut,
  signal: AbortSignal | undefined,
): Promise<SandboxCommandResult> {
  const { name, email } = COMMITTER
  const message = leftoverMessage(job.run.ticket)
  return sandbox.run(scriptCommand(COLLECT_SCRIPT, from.base, job.branch, message, name, email), {
    mounts: [{ from: folders.exchange, to: EXCHANGE_INSIDE, writable: true }],
    timeoutMs: INSIDE_MS_MAX,
    ...(signal === undefined ? {} : { signal }),
  })
}

/** Adds the omitted files to the diff text, because the agent may believe that they were delivered. */
export function withOmittedFiles(work: CollectedWork, output: string): CollectedWork {
  const lines = output.split('\n').filter((line) => line.startsWith(OMITTED_PREFIX))
  if (lines.length === 0) return work
  const omitted = lines.slice(0, OMITTED_LINES_MAX).map((line) => printable(line))
  const text = [work.diff.text, ...omitted].filter((part) => part !== '').join('\n')
  return { ...work, diff: { ...work.diff, text } }
}

export function leftoverMessage({ identifier, title }: Pick<Ticket, 'identifier' | 'title'>): string {
  const subject = truncate(toSingleLine(`${identifier}: ${title}`), MESSAGE_CHARS_MAX)
  return `${subject}\n\nWhat the agent left uncommitted at its end.\n`
}

// ---- counting the files --------------------------------------------------------------------------------------------

const COUNT_MS_MAX = 2 * 60_000
const NUL = 0

const TOO_MANY = no(
  'invalid',
  `the agent’s work changes more than ${WORK_PATHS_MAX} files, so nothing was published; its work stays in its sandbox: see what it added, and whether .gitignore should name it`,
)

/**
 * Refuses work that changes too many files, before anything lists them: folders that contain one another
 * name more files than any machine can list.
 *
 * @param folder the run repository
 */
async function countPaths(git: Git, folder: string, head: string, base: string): Promise<Result<void>> {
  const files = await countNames(git, folder, ['ls-tree', '-r', '-z', '--name-only', head], WORK_PATHS_MAX)
  if (!files.ok) return files
  if (files.value === undefined) {
    const before = await countNames(git, folder, ['ls-tree', '-r', '-z', '--name-only', base])
    if (!before.ok) return before
    const most = (before.value ?? 0) + WORK_PATHS_MAX
    const all = await countNames(git, folder, ['ls-tree', '-r', '-z', '--name-only', head], most)
    if (!all.ok || all.value === undefined) return all.ok ? TOO_MANY : all
  }
  const changed = await countNames(
    git,
    folder,
    ['diff-tree', '-r', '-z', '--name-only', base, head],
    WORK_PATHS_MAX,
  )
  return changed.ok && changed.value === undefined ? TOO_MANY : changed.ok ? yes(undefined) : changed
}

/** Undefined: there are more than `most`. */
async function countNames(
  git: Git,
  folder: string,
  args: readonly string[],
  most = Number.POSITIVE_INFINITY,
): Promise<Result<number | undefined>> {
  const counter = new BoundedStream({ endsMax: most, end: NUL })
  const counted = await git.runChecked('counting the changed files', {
    args,
    folder,
    isUntrusted: true,
    readOutput: (output) =>
      pipeline(output, counter, new Writable({ write: (_piece, _encoding, done) => done() })),
    timeoutMs: COUNT_MS_MAX,
  })
  if (counter.isOver) return yes(undefined)
  return counted.ok ? yes(counter.ends) : counted
}
