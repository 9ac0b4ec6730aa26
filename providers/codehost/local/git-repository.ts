/**
 * Reads and updates a bare repository: branches, commits and what lies between two commits.
 *
 * Branch names are untrusted text: they are only compared with the names that git lists, and commits are passed to git
 * by full hash.
 *
 * `refs/pull/<number>/` records each pull request: `head`, its last known commit; `base`, its base branch at that time;
 * `merged`, the commit that merged it. A pull request so keeps its history after its branch is deleted, and an
 * interrupted merge can be detected.
 */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../../../core/result.ts'
import { NAME_CHARS_MAX, PROSE_CHARS_MAX, PULL_COMMITS_LISTED_MAX } from '../../../protocol/limits.ts'
import type { PullCommit } from '../../../protocol/pulls.ts'
import { gitFailure, type RunGit, runGitForText } from './git-run.ts'

export interface Ref {
  readonly sha: string
  /** Committer date, wall milliseconds. */
  readonly committedAtMs: number
}

export type Refs = ReadonlyMap<string, Ref>

export interface RefUpdate {
  readonly name: string
  /** The new commit; undefined deletes the ref. */
  readonly to: string | undefined
  /** The expected commit; undefined: the ref must not exist; `anywhere`: no expectation. */
  readonly from: string | undefined
}

/** Expectation of a ref update that any current commit satisfies. */
export const ANY_SHA = 'anywhere'

export type PullRefName = 'head' | 'base' | 'merged'

export interface GitCommit {
  readonly sha: string
  readonly tree: string
  /** Empty for a root commit. Merges are not listed, so there is at most one parent. */
  readonly parent: string
  readonly author: { readonly name: string; readonly email: string; readonly date: string }
  readonly message: string
}

/** Limit for the names and hashes of all refs. */
const REFS_BYTES_MAX = 64 * 1024 * 1024
const LOG_BYTES_MAX = 4 * 1024 * 1024
/** Limit for all messages of one reply; messages beyond it are cut to their first line. */
const MESSAGES_CHARS_MAX = 512 * 1024
const SUBJECT_CHARS_MAX = 1_000
const INSTANT_MAX = Date.UTC(9999, 11, 31)
/** Split at the ASCII space only: a ref name may hold other Unicode spaces. */
const REF_LINE = /^([0-9a-f]{40,64}) (\d*) ([^ \n]+)$/
const SHA = /^[0-9a-f]{40,64}$/

export const branchRef = (branch: string): string => `refs/heads/${branch}`
export const pullRef = (number: number, name: PullRefName): string => `refs/pull/${number}/${name}`

/** Tells whether the folder is a bare repository, without running git. */
export async function isRepository(folder: string): Promise<boolean> {
  const [head, objects] = await Promise.all(
    ['HEAD', 'objects'].map((name) => stat(join(folder, name)).catch(() => undefined)),
  )
  return head?.isFile() === true && objects?.isDirectory() === true
}

/**
 * Lists all branches and recorded pull request refs. With `reachableFrom`, only refs whose commits that commit
 * contains.
 */
export async function listRefs(run: RunGit, reachableFrom?: string): Promise<Result<Refs>> {
  const listed = await runGitForText(run, {
    args: [
      'for-each-ref',
      '--format=%(objectname) %(committerdate:unix) %(refname)',
      ...(reachableFrom === undefined ? [] : [`--merged=${reachableFrom}`]),
      'refs/heads/',
      'refs/pull/',
    ],
    bytesMax: REFS_BYTES_MAX,
  })
  if (!listed.ok) return listed
  return yes(new Map(listed.value.split('\n').flatMap(parseRefLine)))
}

/** Applies all updates or none. Refuses with `conflict` when a ref is not where the caller expected it. */
export async function updateRefs(run: RunGit, updates: readonly RefUpdate[]): Promise<Result<void>> {
  const lines = updates.map(refUpdateLine)
  const command = {
    args: ['update-ref', '--stdin'],
    input: `start\n${lines.join('')}commit\n`,
    mustFinish: true,
  }
  const done = await run(command)
  if (!done.ok) return done
  if (done.value.code === 0) return yes(undefined)
  if (/but expected|already exists|unable to resolve|File exists/.test(done.value.errorText)) {
    return no('conflict', 'another process moved a branch meanwhile; check the branch, then try again')
  }
  return gitFailure(command, done.value)
}

function refUpdateLine({ name, to, from }: RefUpdate): string {
  if (from === ANY_SHA) return to === undefined ? `delete ${name}\n` : `update ${name} ${to}\n`
  if (to === undefined) return `delete ${name} ${from}\n`
  return `update ${name} ${to} ${from ?? '0'.repeat(to.length)}\n`
}

/** Undefined when the two commits share no history. */
export async function findMergeBase(
  run: RunGit,
  first: string,
  second: string,
): Promise<Result<string | undefined>> {
  const command = { args: ['merge-base', first, second] }
  const done = await run(command)
  if (!done.ok) return done
  const sha = done.value.output.toString('latin1').trim()
  if (done.value.code === 0 && SHA.test(sha)) return yes(sha)
  return done.value.code === 1 ? yes(undefined) : gitFailure(command, done.value)
}

/** Lists the newest commits that `head` has and `base` lacks, oldest first. */
export async function listCommitsBetween(
  run: RunGit,
  base: string,
  head: string,
): Promise<Result<PullCommit[]>> {
  const log = await readLog(run, '%H%n%an%n%ct%n%B', [
    `--max-count=${PULL_COMMITS_LISTED_MAX}`,
    '--topo-order',
    `${base}..${head}`,
  ])
  if (!log.ok) return log
  let chars = 0
  const commits = log.value.commits.map((lines) => {
    const [sha = '', author = '', at = '', ...rest] = lines
    const message = rest.join('\n').trimEnd().slice(0, PROSE_CHARS_MAX)
    chars += message.length
    return {
      sha,
      author: author.slice(0, NAME_CHARS_MAX),
      committedAt: instantFromMs(Number(at) * 1000),
      message:
        chars <= MESSAGES_CHARS_MAX
          ? message
          : (message.split('\n', 1)[0]?.slice(0, SUBJECT_CHARS_MAX) ?? ''),
    }
  })
  return yes(commits.reverse())
}

/** Lists the commits to apply to `base`, oldest first: no merges, and no change that `base` already has. */
export async function listCommitsToRebase(
  run: RunGit,
  base: string,
  head: string,
  countMax: number,
): Promise<Result<GitCommit[]>> {
  const log = await readLog(run, '%H%n%T%n%P%n%an%n%ae%n%ad%n%B', [
    '--date=raw',
    `--max-count=${countMax}`,
    '--no-merges',
    '--topo-order',
    '--cherry-pick',
    '--right-only',
    `${base}...${head}`,
  ])
  if (!log.ok) return log
  // A rebase or squash must not lose a commit, so a truncated log refuses it.
  if (log.value.isTruncated)
    return no('conflict', 'the commit messages are too long for this merge method; use the method merge')
  const commits = log.value.commits.map(
    ([sha = '', tree = '', parent = '', name = '', email = '', date = '', ...message]) => ({
      sha,
      tree,
      parent,
      author: { name, email, date: `@${date}` },
      message: message.join('\n'),
    }),
  )
  return yes(commits.reverse())
}

export async function readTree(run: RunGit, sha: string): Promise<Result<string>> {
  const shown = await runGitForText(run, {
    args: ['rev-parse', '--verify', '--end-of-options', `${sha}^{tree}`],
  })
  return shown.ok ? yes(shown.value.trim()) : shown
}

/** Hash of the empty tree in the hash algorithm of this repository. */
export async function hashEmptyTree(run: RunGit): Promise<Result<string>> {
  const shown = await runGitForText(run, { args: ['hash-object', '-t', 'tree', '--stdin'] })
  return shown.ok ? yes(shown.value.trim()) : shown
}

/** Clamps the time, because a commit may claim any date. */
export function instantFromMs(ms: number): string {
  return new Date(Math.min(Math.max(Number.isFinite(ms) ? ms : 0, 0), INSTANT_MAX)).toISOString()
}

// ---- parsing git output ---------------------------------------------------------------------------------------------

function parseRefLine(line: string): [string, Ref][] {
  const [, sha = '', seconds = '', name = ''] = REF_LINE.exec(line) ?? []
  return name === '' ? [] : [[name, { sha, committedAtMs: Number(seconds) * 1000 }]]
}

interface CommitLog {
  /** Lines of each commit. Names and hashes hold no line end, and messages hold no NUL. */
  readonly commits: readonly (readonly string[])[]
  /** Further commits exceeded the output limit. */
  readonly isTruncated: boolean
}

async function readLog(run: RunGit, format: string, args: readonly string[]): Promise<Result<CommitLog>> {
  const command = {
    args: ['log', '-z', '--no-patch', '--no-mailmap', '--no-color', `--format=${format}`, ...args, '--'],
    bytesMax: LOG_BYTES_MAX,
  }
  const done = await run(command)
  if (!done.ok) return done
  const { code, output } = done.value
  if (code !== undefined && code !== 0) return gitFailure(command, done.value)
  const records = output.toString('utf8').split('\0')
  // Drop the last record: git was stopped in the middle of it.
  const complete = code === undefined ? records.slice(0, -1) : records
  const commits = complete.filter((record) => record !== '').map((record) => record.split('\n'))
  return yes({ commits, isTruncated: code === undefined })
}
