/**
 * Merges a pull request into its base branch without a working tree.
 *
 * The new commits are created first and recorded below `refs/pull/`; then one conditional update moves the base branch.
 * A crash before that update changes no branch, and leaves only unreferenced commits.
 *
 * Merge drivers of the repository never run. A repository that configures one has to be merged by its owner.
 */
import { explainOldGit, isGitTooOld, parseGitVersion } from '../../../core/git-version.ts'
import { no, type Refused, type Result, yes } from '../../../core/result.ts'
import { NAME_CHARS_MAX, NAMES_LISTED_MAX } from '../../../protocol/limits.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import {
  ANY_SHA,
  type GitCommit,
  listCommitsToRebase,
  pullRef,
  readTree,
  updateRefs,
} from './git-repository.ts'
import { type GitExit, gitFailure, type RunGit, runGitForText } from './git-run.ts'

export interface GitIdentity {
  readonly name: string
  readonly email: string
}

export interface MergeInput extends MergeSubject {
  /** Commits that the two branches point to. */
  readonly head: string
  readonly base: string
  /** Full name, such as `refs/heads/main`. */
  readonly baseRef: string
  readonly committer: GitIdentity
  /** Wall milliseconds. */
  readonly atMs: number
}

/** Result of a trial merge: the merged tree, or the files with conflicts. */
export type TrialMerge =
  | { readonly is: 'clean'; readonly tree: string }
  | { readonly is: 'dirty'; readonly files: readonly string[] }

interface NewCommit {
  readonly tree: string
  readonly parents: readonly string[]
  readonly message: string
  readonly author?: GitCommit['author']
}

const REBASED_COMMITS_MAX = 250
/** Git strips these characters from a name, and refuses to commit with an empty one. */
const UNUSABLE_NAME = /^[\s.,:;<>"\\']*$/
/** Raw date format that git accepts. A commit may carry a date that git would refuse. */
const RAW_DATE = /^@\d{1,15} [+-]\d{4}$/

/** Answers `moved` when another process moved the base branch meanwhile; nothing has changed then. */
export async function mergePull(
  run: RunGit,
  method: 'merge' | 'squash' | 'rebase',
  input: MergeInput,
): Promise<Result<'merged' | 'moved'>> {
  const created = await MERGE_METHODS[method](run, input)
  if (!created.ok) return created
  const { number, baseRef, base, head } = input
  const pullRefs = [
    { name: pullRef(number, 'head'), to: head, from: ANY_SHA },
    { name: pullRef(number, 'base'), to: base, from: ANY_SHA },
    { name: pullRef(number, 'merged'), to: created.value, from: ANY_SHA },
  ]
  // Git updates several refs one after the other. Record the merge first, so that a crash in between cannot lose it.
  const recorded = await updateRefs(run, pullRefs)
  const moved = recorded.ok
    ? await updateRefs(run, [{ name: baseRef, to: created.value, from: base }, ...pullRefs])
    : recorded
  if (!moved.ok) return moved.refusal.kind === 'conflict' ? yes('moved') : moved
  return yes('merged')
}

/** Merges two commits and writes only unreferenced objects. */
export async function tryMerge(run: RunGit, into: string, from: string): Promise<Result<TrialMerge>> {
  const noDrivers = await checkNoMergeDrivers(run)
  if (!noDrivers.ok) return noDrivers
  const command = { args: ['merge-tree', '--write-tree', '-z', '--name-only', '--no-messages', into, from] }
  const done = await run(command)
  if (!done.ok) return done
  const old = done.value.code === USAGE_CODE ? await refuseOldGit(run) : undefined
  return old ?? parseTrialMerge(command, done.value)
}

/** Git's exit code for an option that it does not know. */
const USAGE_CODE = 129

/** Undefined when git is new enough. */
async function refuseOldGit(run: RunGit): Promise<Refused | undefined> {
  const answer = await runGitForText(run, { args: ['version'] })
  const version = answer.ok ? parseGitVersion(answer.value) : undefined
  if (version === undefined || !isGitTooOld(version, 'merges')) return undefined
  return no('conflict', explainOldGit('merging in a local code host', version, 'merges'))
}

function parseTrialMerge(command: { readonly args: readonly string[] }, done: GitExit): Result<TrialMerge> {
  const [tree = '', ...files] = done.output.toString('utf8').split('\0')
  if (done.code === 0) return yes({ is: 'clean', tree: tree.trim() })
  if (done.code === 1) return yes({ is: 'dirty', files: [...new Set(files.filter((name) => name !== ''))] })
  if (/unrelated histories/.test(done.errorText)) {
    return no('conflict', 'the two branches have no history in common, so they cannot be merged')
  }
  return gitFailure(command, done)
}

async function checkNoMergeDrivers(run: RunGit): Promise<Result<void>> {
  const command = { args: ['config', '--name-only', '--get-regexp', String.raw`^merge\..*\.driver$`] }
  const done = await run(command)
  if (!done.ok) return done
  if (done.value.code === 1) return yes(undefined)
  if (done.value.code !== 0) return gitFailure(command, done.value)
  return no(
    'conflict',
    'the repository configures merge programs of its own, which switchyard does not run; merge by hand',
  )
}

// ---- merge methods --------------------------------------------------------------------------------------------------

type CreateMergeCommits = (run: RunGit, order: MergeInput) => Promise<Result<string>>

const MERGE_METHODS: Readonly<Record<'merge' | 'squash' | 'rebase', CreateMergeCommits>> = {
  async merge(run, input) {
    const tree = await mergeCleanTree(run, input, input.base, input.head)
    if (!tree.ok) return tree
    const parents = [input.base, input.head]
    return createCommit(run, input, { tree: tree.value, parents, message: mergeMessage(input) })
  },

  async squash(run, input) {
    const tree = await mergeCleanTree(run, input, input.base, input.head)
    if (!tree.ok) return tree
    const baseTree = await readTree(run, input.base)
    if (!baseTree.ok) return baseTree
    if (baseTree.value === tree.value) return refuseNothingToMerge(input)
    const commits = await listCommitsToRebase(run, input.base, input.head, REBASED_COMMITS_MAX)
    if (!commits.ok) return commits
    const [first] = commits.value
    return createCommit(run, input, {
      tree: tree.value,
      parents: [input.base],
      message: squashMessage(input, commits.value),
      ...(first === undefined ? {} : { author: first.author }),
    })
  },

  async rebase(run, input) {
    const noDrivers = await checkNoMergeDrivers(run)
    if (!noDrivers.ok) return noDrivers
    const commits = await listCommitsToRebase(run, input.base, input.head, REBASED_COMMITS_MAX + 1)
    if (!commits.ok) return commits
    if (commits.value.length > REBASED_COMMITS_MAX) return refuseTooManyCommits(input, REBASED_COMMITS_MAX)
    if (commits.value.some(({ parent }) => parent === '')) return refuseSecondRoot(input)
    let tip = input.base
    for (const commit of commits.value) {
      const picked = await cherryPick(run, input, commit, tip)
      if (!picked.ok) return picked
      tip = picked.value
    }
    return tip === input.base ? refuseNothingToMerge(input) : yes(tip)
  },
}

async function mergeCleanTree(
  run: RunGit,
  input: MergeInput,
  into: string,
  from: string,
): Promise<Result<string>> {
  const merged = await tryMerge(run, into, from)
  if (!merged.ok) return merged
  return merged.value.is === 'clean' ? yes(merged.value.tree) : refuseConflicts(input, merged.value.files)
}

/**
 * Applies the change of one commit on top of another commit.
 *
 * `git merge-tree` merges from the common ancestor. A helper commit with the files of the tip and the parent of the
 * picked commit makes that parent the ancestor. A change that the tip already has creates no commit.
 */
async function cherryPick(
  run: RunGit,
  input: MergeInput,
  commit: GitCommit,
  tip: string,
): Promise<Result<string>> {
  if (commit.parent === tip) return recommit(run, input, commit, commit.tree, tip)
  const tipTree = await readTree(run, tip)
  if (!tipTree.ok) return tipTree
  const tipTwin = await createCommit(run, input, {
    tree: tipTree.value,
    parents: [commit.parent],
    message: 'beside',
  })
  if (!tipTwin.ok) return tipTwin
  const tree = await mergeCleanTree(run, input, tipTwin.value, commit.sha)
  if (!tree.ok) return tree
  return tree.value === tipTree.value ? yes(tip) : recommit(run, input, commit, tree.value, tip)
}

function recommit(run: RunGit, input: MergeInput, commit: GitCommit, tree: string, tip: string) {
  return createCommit(run, input, { tree, parents: [tip], message: commit.message, author: commit.author })
}

async function createCommit(run: RunGit, input: MergeInput, newCommit: NewCommit): Promise<Result<string>> {
  const { committer, atMs } = input
  const date = `@${Math.floor(atMs / 1000)} +0000`
  const author = newCommit.author ?? { ...committer, date }
  const created = await runGitForText(run, {
    args: ['commit-tree', newCommit.tree, ...newCommit.parents.flatMap((parent) => ['-p', parent])],
    input: newCommit.message,
    env: {
      GIT_AUTHOR_NAME: UNUSABLE_NAME.test(author.name) ? 'nobody' : author.name,
      GIT_AUTHOR_EMAIL: author.email,
      GIT_AUTHOR_DATE: RAW_DATE.test(author.date) ? author.date : date,
      GIT_COMMITTER_NAME: committer.name,
      GIT_COMMITTER_EMAIL: committer.email,
      GIT_COMMITTER_DATE: date,
    },
  })
  return created.ok ? yes(created.value.trim()) : created
}

// ---- messages and refusals -----------------------------------------------------------------------------------------

/** The pull request that a message names. */
interface MergeSubject {
  readonly number: number
  readonly title: string
  readonly owner: string
  readonly headBranch: string
  readonly baseBranch: string
}

const COAUTHORS_MAX = 20
const SQUASHED_MESSAGE_CHARS_MAX = 64 * 1024
/** Limit for the name of one conflicting file. */
const FILE_NAME_CHARS_MAX = 200

function mergeMessage({ number, owner, headBranch, title }: MergeSubject): string {
  return `Merge pull request #${number} from ${owner}/${headBranch}\n\n${toOneLine(title)}\n`
}

/** Follows GitHub: the body of a single commit is kept, several commits are listed, and all authors are credited. */
function squashMessage({ title, number }: MergeSubject, commits: readonly GitCommit[]): string {
  const [first, ...others] = commits
  const subject = `${toOneLine(title)} (#${number})`
  const body =
    others.length === 0
      ? messageBody(first)
      : commits.map(({ message }) => `* ${subjectLine(message)}`).join('\n')
  const trailers = coauthorTrailers(commits)
  const parts = [subject, body.slice(0, SQUASHED_MESSAGE_CHARS_MAX), trailers].map((part) => part.trim())
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}

const subjectLine = (message: string): string => toOneLine(message.split('\n', 1)[0] ?? '')
const messageBody = (commit: GitCommit | undefined): string =>
  commit?.message.split('\n').slice(1).join('\n') ?? ''

function coauthorTrailers(commits: readonly GitCommit[]): string {
  const [first, ...others] = commits.map(({ author: { name, email } }) => `${name} <${email}>`)
  const names = [...new Set(others)].filter((name) => name !== first)
  return names
    .slice(0, COAUTHORS_MAX)
    .map((name) => `Co-authored-by: ${name}`)
    .join('\n')
}

const toOneLine = (text: string): string => text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim()

function refuseConflicts({ baseBranch }: MergeSubject, files: readonly string[]) {
  const shown = files.slice(0, NAMES_LISTED_MAX).map((name) => printable(name).slice(0, FILE_NAME_CHARS_MAX))
  const named = shown.join(', ')
  const more = files.length > NAMES_LISTED_MAX ? ` and ${files.length - NAMES_LISTED_MAX} more` : ''
  return no(
    'conflict',
    `the pull request has conflicts with ${printable(baseBranch)} in ${named}${more}; resolve them on its branch, then merge again`,
  )
}

export function refuseNothingToMerge({
  headBranch,
  baseBranch,
}: Pick<MergeSubject, 'headBranch' | 'baseBranch'>) {
  return no(
    'conflict',
    `there is nothing to merge: ${printable(baseBranch)} contains all commits of ${printable(headBranch)}`,
  )
}

function refuseSecondRoot({ headBranch }: MergeSubject) {
  return no(
    'conflict',
    `${printable(headBranch)} contains a second root commit, which cannot be rebased; use merge or squash`,
  )
}

function refuseTooManyCommits({ headBranch }: MergeSubject, countMax: number) {
  return no(
    'conflict',
    `${printable(headBranch)} has more than ${countMax} commits, too many to rebase; use merge or squash`,
  )
}

// ---- who merges ----------------------------------------------------------------------------------------------------

const DEFAULT_IDENTITY: GitIdentity = { name: 'you', email: 'you@localhost' }

/**
 * Reads the git identity of the person who uses the local code host.
 *
 * The local code host has no accounts, so a person acts under the name and e-mail address that git would commit with. A
 * pull request that the person opened by hand under that name is their own. Without a configured name the identity is
 * `you`. Pull requests that switchyard opens have another author, so the person may approve them.
 *
 * Only `user.name` and `user.email` are read from the person's git configuration.
 *
 * @param home environment variables that locate the person's git configuration.
 */
export async function readGitIdentity(
  run: RunGit,
  home: Readonly<Record<string, string | undefined>>,
): Promise<GitIdentity> {
  const { HOME, XDG_CONFIG_HOME } = home
  if (HOME === undefined) return DEFAULT_IDENTITY
  const settings = await runGitForText(run, {
    args: ['config', '--global', '--includes', '-z', '--get-regexp', String.raw`^user\.(name|email)$`],
    env: {
      HOME,
      GIT_CONFIG_GLOBAL: undefined,
      ...(XDG_CONFIG_HOME === undefined ? {} : { XDG_CONFIG_HOME }),
    },
  })
  if (!settings.ok) return DEFAULT_IDENTITY
  // The last value of a key wins, as in git.
  const values = new Map(settings.value.split('\0').map(splitKeyAndValue))
  return {
    name: cleanName(values.get('user.name')) ?? DEFAULT_IDENTITY.name,
    email: cleanName(values.get('user.email')) ?? DEFAULT_IDENTITY.email,
  }
}

function splitKeyAndValue(entry: string): [string, string] {
  const end = entry.indexOf('\n')
  return [entry.slice(0, end), entry.slice(end + 1)]
}

function cleanName(value: string | undefined): string | undefined {
  const name = printable(value ?? '')
    .replace(/[<>]/g, '')
    .trim()
    .slice(0, NAME_CHARS_MAX)
  return UNUSABLE_NAME.test(name) ? undefined : name
}
