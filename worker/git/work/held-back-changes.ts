/**
 * `holdBackCiChanges` takes changes of CI definitions out of a run's commits before they are pushed;
 * `computeDiffStats` describes what is left.
 *
 * A code host runs such a definition with the repository's secrets as soon as it is pushed, before anybody has read
 * it. The commits are written anew without these paths, outside the sandbox; a commit that changed nothing else is
 * dropped. Definitions that a person changed on the same branch stay.
 */
import { no, type Result, yes } from '../../../core/result.ts'
import { truncate } from '../../../core/safe-text.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { Git } from '../git.ts'
import type { CheckedOut, CollectedWork, HeldBackChanges } from '../git-ports.ts'
import { knownCommits, type RewritePlace, rewriteCommits } from './rewrite-commits.ts'
import { LOCAL_MS_MAX, untrustedCall } from './work-bounds.ts'

/** Files and folders at the root of a repository that a code host or a CI service executes. */
export const CI_PATHS: readonly string[] = [
  ...['.github/workflows', '.github/actions', '.gitea/workflows', '.forgejo/workflows'],
  ...['.gitlab-ci.yml', '.gitlab-ci.yaml', '.gitlab/ci', '.circleci', '.buildkite', '.travis.yml'],
  ...['.drone.yml', '.drone.yaml', '.drone.star', '.drone.jsonnet', '.cirrus.yml', '.cirrus.star'],
  ...['.woodpecker', '.woodpecker.yml', '.woodpecker.yaml', '.semaphore', '.teamcity', '.tekton'],
  ...['.builds', '.build.yml', 'Jenkinsfile', 'buildspec.yml', 'cloudbuild.yaml', 'cloudbuild.yml'],
  ...['azure-pipelines.yml', 'azure-pipelines.yaml', '.azure-pipelines', 'bitbucket-pipelines.yml'],
  ...['appveyor.yml', '.appveyor.yml', 'bitrise.yml', 'bitrise.yaml', 'codemagic.yaml', 'codemagic.yml'],
  ...['.zuul.yaml', '.zuul.d', 'zuul.yaml', 'zuul.d', 'netlify.toml', 'vercel.json', 'vercel.ts'],
  ...['.readthedocs.yaml', '.readthedocs.yml', 'readthedocs.yaml', 'readthedocs.yml'],
  ...['.pre-commit-config.yaml', '.pre-commit-config.yml', '.mergify.yml', '.mergify', '.github/mergify.yml'],
  ...['.github/dependabot.yml', '.github/dependabot.yaml', '.renovaterc', '.renovaterc.json'],
  ...['.renovaterc.json5', 'renovate.json', 'renovate.json5', '.github/renovate.json'],
  ...['.github/renovate.json5', '.gitlab/renovate.json', '.gitlab/renovate.json5'],
]

const PATCH_CHARS_MAX = 1024 * 1024
const PATHS_NAMED_MAX = 20
const ONLY_CI = CI_PATHS.map((path) => `:(top,literal)${path}`)
const WITHOUT_CI = [':(top)', ...CI_PATHS.map((path) => `:(top,literal,exclude)${path}`)]

export interface CleanWork {
  /** undefined: nothing else was changed. */
  readonly head: string | undefined
  /** undefined: no definition was changed. */
  readonly heldBack?: HeldBackChanges
}

export async function holdBackCiChanges(
  git: Git,
  place: RewritePlace,
  head: string,
  from: CheckedOut,
): Promise<Result<CleanWork>> {
  const allowed = await readAllowed(git, place.folder, from)
  if (!allowed.ok) return allowed
  const changed = await differingPaths(git, place.folder, head, allowed.value)
  if (!changed.ok) return changed
  const undone = changed.value.length > 0 ? yes([]) : await undonePaths(git, place.folder, head, from)
  if (!undone.ok) return undone
  const paths = [...changed.value, ...undone.value]
  if (paths.length === 0) return yes({ head })
  const patch = await git.runChecked('reading the changed CI definitions', {
    ...untrustedCall(
      place.folder,
      changed.value.length > 0
        ? [...DIFF, '--full-index', from.base, head, '--', ...ONLY_CI]
        : [...logOf(head, from, ['--patch', '--full-index']), '--', ...ONLY_CI],
    ),
    outputCharsMax: PATCH_CHARS_MAX,
  })
  if (!patch.ok) return patch
  const heldBack = {
    paths: paths.slice(0, PATHS_NAMED_MAX).map((path) => printable(path)),
    patch: patch.value.output,
  }
  const clean = await rewriteWithoutCi(git, place, head, from)
  if (!clean.ok) return clean
  const left = await differingPaths(git, place.folder, clean.value ?? from.base, allowed.value)
  if (!left.ok) return left
  if (left.value.length === 0) return yes({ head: clean.value, heldBack })
  return no(
    'conflict',
    `the agent's changes of CI definitions (${heldBack.paths.join(', ')}) can't be taken out of its commits, so nothing was pushed; undo them in the sandbox, or set allowWorkflows for the repository`,
  )
}

const DIFF = ['diff', '--no-ext-diff', '--no-textconv', '--no-renames', '--no-color']

// ---- what the branch may hold ----------------------------------------------------------------------------------------

/** Mode and object of each CI definition, by path. */
type Definitions = ReadonlyMap<string, string>

/** The definitions of the base, and those that the branch had changed before this run. */
async function readAllowed(
  git: Git,
  folder: string,
  { base, pushedBefore }: CheckedOut,
): Promise<Result<Definitions>> {
  const ofBase = await readDefinitions(git, folder, base)
  if (!ofBase.ok || pushedBefore === undefined || pushedBefore === base) return ofBase
  const fork = await git.run(untrustedCall(folder, ['merge-base', base, pushedBefore]))
  if (!fork.ok) return fork
  const before = await readDefinitions(git, folder, pushedBefore)
  const atFork = await readDefinitions(git, folder, fork.value.output.trim() || base)
  if (!before.ok) return before
  if (!atFork.ok) return atFork
  const allowed = new Map(ofBase.value)
  for (const path of new Set([...before.value.keys(), ...atFork.value.keys()])) {
    const own = before.value.get(path)
    if (own === atFork.value.get(path)) continue
    if (own === undefined) allowed.delete(path)
    else allowed.set(path, own)
  }
  return yes(allowed)
}

async function readDefinitions(git: Git, folder: string, commit: string): Promise<Result<Definitions>> {
  const listed = await git.runChecked('listing the CI definitions', {
    ...untrustedCall(folder, ['ls-tree', '-r', '-z', '--full-tree', commit, '--', ...CI_PATHS]),
    outputCharsMax: PATCH_CHARS_MAX,
  })
  if (!listed.ok) return listed
  return yes(
    new Map(
      namesIn(listed.value.output).map((line) => [
        line.slice(line.indexOf('\t') + 1),
        line.slice(0, line.indexOf('\t')),
      ]),
    ),
  )
}

async function differingPaths(
  git: Git,
  folder: string,
  head: string,
  allowed: Definitions,
): Promise<Result<readonly string[]>> {
  const read = await readDefinitions(git, folder, head)
  if (!read.ok) return read
  const all = [...new Set([...read.value.keys(), ...allowed.keys()])].sort()
  return yes(all.filter((path) => read.value.get(path) !== allowed.get(path)))
}

/** With `-c`, a merge shows what differs from each of its parents, so what it brings itself. */
const logOf = (head: string, from: CheckedOut, options: readonly string[]): readonly string[] => [
  ...[
    'log',
    '--full-history',
    '--no-ext-diff',
    '--no-textconv',
    '--no-renames',
    '--no-color',
    '-c',
    ...options,
  ],
  ...[head, ...knownCommits(from).map((commit) => `^${commit}`)],
]

/**
 * Definitions that a commit changes and a later one restores. Where a person changed some on the branch, their commits
 * may be among these when the branch was rebased, so none is named.
 */
async function undonePaths(
  git: Git,
  folder: string,
  head: string,
  from: CheckedOut,
): Promise<Result<readonly string[]>> {
  if (from.pushedBefore !== undefined) {
    const own = await git.run(
      untrustedCall(folder, [...DIFF, '--quiet', `${from.base}...${from.pushedBefore}`, '--', ...ONLY_CI]),
    )
    if (!own.ok) return own
    if (own.value.code !== 0) return yes([])
  }
  const listed = await git.runChecked('listing the changes of CI definitions', {
    ...untrustedCall(folder, [...logOf(head, from, ['--format=', '--name-only', '-z']), '--', ...ONLY_CI]),
    outputCharsMax: PATCH_CHARS_MAX,
  })
  if (!listed.ok) return listed
  return yes([...new Set(namesIn(listed.value.output))].sort())
}

const namesIn = (output: string): string[] => output.split('\0').filter((name) => name !== '')

// ---- writing the commits anew ----------------------------------------------------------------------------------------

/** Returns the new head; undefined when no commit is left. */
async function rewriteWithoutCi(
  git: Git,
  place: RewritePlace,
  head: string,
  from: CheckedOut,
): Promise<Result<string | undefined>> {
  const rewritten = await rewriteCommits(
    git,
    place,
    { head, known: knownCommits(from) },
    { pathspecs: WITHOUT_CI },
  )
  if (!rewritten.ok || rewritten.value === undefined) return rewritten
  const commit = rewritten.value
  const same = await git.run(
    untrustedCall(place.folder, [...DIFF, '--quiet', commit, head, '--', ...WITHOUT_CI]),
  )
  if (!same.ok) return same
  if (same.value.code === 0) return yes(commit)
  return no(
    'failed',
    'the commits could not be written anew without the CI definitions, so nothing was pushed',
  )
}

// ---- the size of the change ----------------------------------------------------------------------------------------

const FILES_SHOWN = 40
const TEXT_CHARS_MAX = 8 * 1024

/** Computes the size of a change and lists its first files. Runs outside the sandbox, so that the numbers are true. */
export async function computeDiffStats(
  git: Git,
  folder: string,
  head: string,
  base: string,
): Promise<Result<CollectedWork>> {
  const [commits, stat, readFirst] = await Promise.all([
    git.runChecked('counting commits', {
      args: ['rev-list', '--count', `${base}..${head}`],
      folder,
      isUntrusted: true,
      timeoutMs: LOCAL_MS_MAX,
    }),
    git.run(untrustedCall(folder, diffArguments(base, head))),
    findReadFirst(git, folder, head, base),
  ])
  if (!commits.ok) return commits
  if (!readFirst.ok) return readFirst
  // If git cannot compute the statistics in time, the change is still valid.
  const text = stat.ok && stat.value.code === 0 ? stat.value.output : 'the change is too large to be shown'
  return yes({
    head,
    commits: Number(commits.value.output),
    diff: { ...parseTotals(text), text: printableText(text), readFirst: readFirst.value },
  })
}

/** Files and folders that run on the machine of whoever opens the branch, or decide who reviews it. */
const REVIEWER_PATHS: readonly string[] = [
  ...['CODEOWNERS', '.github/CODEOWNERS', '.gitlab/CODEOWNERS', 'docs/CODEOWNERS', '.envrc', '.husky'],
  ...[
    '.devcontainer',
    '.devcontainer.json',
    '.vscode/tasks.json',
    '.vscode/settings.json',
    '.vscode/launch.json',
  ],
  ...['.mcp.json', '.claude', '.cursor', '.gemini', '.codex'],
]

/** The changed files that a reviewer should read first, those that run in CI included. */
export async function findReadFirst(
  git: Git,
  folder: string,
  head: string,
  base: string,
): Promise<Result<readonly string[]>> {
  const paths = [...ONLY_CI, ...REVIEWER_PATHS.map((path) => `:(top,literal)${path}`)]
  const listed = await git.runChecked('listing the files to read first', {
    ...untrustedCall(folder, [...DIFF, '--name-only', '-z', base, head, '--', ...paths]),
    outputCharsMax: PATCH_CHARS_MAX,
  })
  if (!listed.ok) return listed
  return yes(
    namesIn(listed.value.output)
      .slice(0, PATHS_NAMED_MAX)
      .map((path) => printable(path)),
  )
}

function diffArguments(base: string, head: string): string[] {
  return [
    'diff',
    '--no-ext-diff',
    '--no-textconv',
    '--no-renames',
    '--no-color',
    '--stat=100',
    `--stat-count=${FILES_SHOWN}`,
    base,
    head,
  ]
}

function parseTotals(text: string): Omit<CollectedWork['diff'], 'text' | 'readFirst'> {
  const last = text.trimEnd().split('\n').at(-1) ?? ''
  const numberIn = (pattern: RegExp) => Number(pattern.exec(last)?.[1] ?? 0)
  return {
    files: numberIn(/(\d+) files? changed/),
    additions: numberIn(/(\d+) insertions?\(\+\)/),
    deletions: numberIn(/(\d+) deletions?\(-\)/),
  }
}

function printableText(text: string): string {
  const lines = text.trimEnd().split('\n')
  return truncate(lines.map((line) => printable(line.trimEnd())).join('\n'), TEXT_CHARS_MAX)
}
