/**
 * What a bare repository says of itself: its branches, which commit holds which, what stands between two of them.
 *
 * A branch's name is somebody's text, so it is only ever looked up among the names that git lists; commits are named
 * by their full hash alone. Beside the branches stands what is remembered of each pull request, below
 * `refs/pull/<number>/`: `head`, its last known commit; `base`, where its base branch was at that time; and `merged`,
 * the commit by which it came in. So its history outlives its branch, and a merge that a crash cut off is known.
 */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../../core/result.ts'
import { NAME_CHARS_MAX, PROSE_CHARS_MAX, PULL_COMMITS_LISTED_MAX } from '../../protocol/limits.ts'
import type { PullCommit } from '../../protocol/pulls.ts'
import { gitFailure, type RunGit, runGitForText } from './git-run.ts'

export interface Ref {
  readonly sha: string
  /** Of its commit, wall milliseconds. */
  readonly committedAtMs: number
}

export type Refs = ReadonlyMap<string, Ref>

export interface RefUpdate {
  readonly name: string
  /** undefined: it is removed. */
  readonly to: string | undefined
  /** undefined: it must not be there; `anywhere`: whatever it is now. */
  readonly from: string | undefined
}

/** Instead of a hash, for what may be moved from wherever it is. */
export const ANY_SHA = 'anywhere'

export type PullRefName = 'head' | 'base' | 'merged'

export interface GitCommit {
  readonly sha: string
  readonly tree: string
  /** Of one that is no merge: exactly one; empty where a history begins. */
  readonly parent: string
  readonly author: { readonly name: string; readonly email: string; readonly date: string }
  readonly message: string
}

/** Of the names and hashes of all branches. */
const REFS_BYTES_MAX = 64 * 1024 * 1024
const LOG_BYTES_MAX = 4 * 1024 * 1024
/** Of all messages that one answer holds; of the others, the first line. */
const MESSAGES_CHARS_MAX = 512 * 1024
const SUBJECT_CHARS_MAX = 1_000
const INSTANT_MAX = Date.UTC(9999, 11, 31)
/** A name may hold whatever other alphabets have for a space. */
const REF_LINE = /^([0-9a-f]{40,64}) (\d*) ([^ \n]+)$/
const SHA = /^[0-9a-f]{40,64}$/

export const branchRef = (branch: string): string => `refs/heads/${branch}`
export const pullRef = (number: number, name: PullRefName): string => `refs/pull/${number}/${name}`

/** Whether there is one; nothing in it is run or read. */
export async function isRepository(folder: string): Promise<boolean> {
  const [head, objects] = await Promise.all(
    ['HEAD', 'objects'].map((name) => stat(join(folder, name)).catch(() => undefined)),
  )
  return head?.isFile() === true && objects?.isDirectory() === true
}

/** All branches, and what is remembered of pull requests; with `holding`, only those whose commits that one holds. */
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

/** All or none of them. Refused as `conflict` when one is not where it was expected. */
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
    return no('conflict', 'a branch was moved at the same moment; look at it, and try again')
  }
  return gitFailure(command, done.value)
}

function refUpdateLine({ name, to, from }: RefUpdate): string {
  if (from === ANY_SHA) return to === undefined ? `delete ${name}\n` : `update ${name} ${to}\n`
  if (to === undefined) return `delete ${name} ${from}\n`
  return `update ${name} ${to} ${from ?? '0'.repeat(to.length)}\n`
}

/** undefined: they have no history in common. */
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

/** Those that `head` has and `base` has not, the newest of them, oldest first. */
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

/** To be made anew elsewhere: without merges, and without those whose change `base` has already; oldest first. */
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
  // None of them may be missing from what is made of them.
  if (log.value.isTruncated)
    return no('conflict', 'its commits have messages that are too long for this; merge them by a merge')
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

/** The tree that holds nothing, by its name in this repository. */
export async function hashEmptyTree(run: RunGit): Promise<Result<string>> {
  const shown = await runGitForText(run, { args: ['hash-object', '-t', 'tree', '--stdin'] })
  return shown.ok ? yes(shown.value.trim()) : shown
}

/** What a commit claims may lie anywhere in time. */
export function instantFromMs(ms: number): string {
  return new Date(Math.min(Math.max(Number.isFinite(ms) ? ms : 0, 0), INSTANT_MAX)).toISOString()
}

// ---- reading what git prints -------------------------------------------------------------------------------------

function parseRefLine(line: string): [string, Ref][] {
  const [, sha = '', seconds = '', name = ''] = REF_LINE.exec(line) ?? []
  return name === '' ? [] : [[name, { sha, committedAtMs: Number(seconds) * 1000 }]]
}

interface CommitLog {
  /** One list of lines a commit: neither names nor hashes hold a line's end, and no message holds a NUL. */
  readonly commits: readonly (readonly string[])[]
  /** There are more, too long to be read. */
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
  // What it could not say to its end is left out rather than torn.
  const complete = code === undefined ? records.slice(0, -1) : records
  const commits = complete.filter((record) => record !== '').map((record) => record.split('\n'))
  return yes({ commits, isTruncated: code === undefined })
}
