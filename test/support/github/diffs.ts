/** Reads commits, changed files, hunks and line positions of a commit range. */
import { git, linesOf } from './plumbing.ts'
import type { DiffSide } from './records.ts'

/** Limit of GitHub. */
const COMMITS_MAX = 250
const FILES_MAX = 3000
const PATCH_LINES_MAX = 3000

export interface Signed {
  readonly name: string
  readonly email: string
  readonly date: string
}

export interface Commit {
  readonly sha: string
  readonly tree: string
  readonly parents: readonly string[]
  readonly author: Signed
  readonly committer: Signed
  readonly message: string
}

export interface FileChange {
  readonly path: string
  readonly previousPath: string | undefined
  readonly status: 'added' | 'removed' | 'modified' | 'renamed' | 'copied' | 'changed'
  /** Blob hash, also for a removed file. */
  readonly sha: string
  readonly additions: number
  readonly deletions: number
  /** Hunks; undefined for a binary or a very long diff. */
  readonly patch: string | undefined
}

const FIELDS = ['%H', '%T', '%P', '%an', '%ae', '%aI', '%cn', '%ce', '%cI', '%B'].join('%x1f')

/** Oldest first. */
export async function commitsBetween(path: string, base: string, head: string): Promise<Commit[]> {
  const range = ['--reverse', '--topo-order', `--format=${FIELDS}`, '-z', `${base}..${head}`]
  const output = await git(path, ['log', ...range])
  return output
    .split('\0')
    .filter((fields) => fields !== '')
    .slice(0, COMMITS_MAX)
    .map(commitOf)
}

function commitOf(text: string): Commit {
  const part = text.replace(/^\n/, '').split('\x1f')
  const at = (index: number): string => part[index] ?? ''
  return {
    sha: at(0),
    tree: at(1),
    parents: at(2).split(' ').filter(Boolean),
    author: { name: at(3), email: at(4), date: instant(at(5)) },
    committer: { name: at(6), email: at(7), date: instant(at(8)) },
    message: at(9).replace(/\n+$/, ''),
  }
}

/** GitHub reports instants in UTC, to the second. */
function instant(iso: string): string {
  return `${new Date(iso).toISOString().slice(0, 19)}Z`
}

/** Compares from the merge base, as the file list of a pull request does. */
export async function filesBetween(path: string, base: string, head: string): Promise<FileChange[]> {
  const parted = (await git(path, ['merge-base', base, head])).trim()
  const [raw, patches] = await Promise.all([
    git(path, ['diff', '--raw', '-M', '-z', '--abbrev=40', parted, head]),
    git(path, ['diff', '-M', '--no-color', '--no-ext-diff', parted, head]),
  ])
  const texts = patches.split(/^(?=diff --git )/m).filter((text) => text !== '')
  return rawEntries(raw)
    .slice(0, FILES_MAX)
    .map((entry, at) => fileChange(entry, texts[at] ?? ''))
}

interface RawEntry {
  readonly statusCode: string
  readonly oldSha: string
  readonly newSha: string
  readonly paths: readonly [string, ...string[]]
}

function rawEntries(raw: string): RawEntry[] {
  const parts = raw.split('\0')
  const entries: RawEntry[] = []
  for (let at = 0; (parts[at] ?? '').startsWith(':'); ) {
    const [, , oldSha = '', newSha = '', status = ''] = (parts[at] ?? '').split(' ')
    const statusCode = status.charAt(0)
    const moved = statusCode === 'R' || statusCode === 'C'
    const first = parts[at + 1] ?? ''
    entries.push({ statusCode, oldSha, newSha, paths: moved ? [first, parts[at + 2] ?? ''] : [first] })
    at += moved ? 3 : 2
  }
  return entries
}

const STATUSES: Readonly<Record<string, FileChange['status']>> = {
  A: 'added',
  D: 'removed',
  M: 'modified',
  R: 'renamed',
  C: 'copied',
  T: 'changed',
}

function fileChange({ statusCode, oldSha, newSha, paths }: RawEntry, text: string): FileChange {
  const start = text.search(/^@@ /m)
  const patch = start < 0 ? undefined : text.slice(start).replace(/\n$/, '')
  const lines = patch?.split('\n') ?? []
  return {
    path: paths[paths.length - 1] ?? '',
    previousPath: paths.length > 1 ? paths[0] : undefined,
    status: STATUSES[statusCode] ?? 'changed',
    sha: statusCode === 'D' ? oldSha : newSha,
    additions: lines.filter((line) => line.startsWith('+')).length,
    deletions: lines.filter((line) => line.startsWith('-')).length,
    patch: lines.length > PATCH_LINES_MAX ? undefined : patch,
  }
}

// ---- lines ----------------------------------------------------------------------------------------------------------

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/

/** The hunk up to a line, as review comments carry it; undefined when no hunk shows the line. */
export function hunkUpTo(patch: string, line: number, side: DiffSide): string | undefined {
  let shown: string[] = []
  let [left, right] = [0, 0]
  for (const text of patch.split('\n')) {
    const header = HUNK.exec(text)
    if (header !== null) {
      shown = [text]
      left = Number(header[1]) - 1
      right = Number(header[3]) - 1
      continue
    }
    shown.push(text)
    const sign = text.charAt(0)
    if (sign !== '+' && sign !== '\\') left++
    if (sign !== '-' && sign !== '\\') right++
    const isLine = side === 'LEFT' ? sign !== '+' && left === line : sign !== '-' && right === line
    if (isLine && sign !== '\\') return shown.join('\n')
  }
  return undefined
}

/** Position of a line in a later commit; undefined when the line changed or is gone. */
export async function lineIn(
  path: string,
  from: string,
  to: string,
  file: string,
  line: number,
): Promise<number | undefined> {
  if (from === to) return line
  const diff = await git(path, ['diff', '-U0', '--no-color', '--no-ext-diff', from, to, '--', file])
  if (/^(deleted file|Binary files)/m.test(diff)) return undefined
  let shift = 0
  for (const text of linesOf(diff)) {
    const hunk = HUNK.exec(text)
    if (hunk === null) continue
    const [start, removed, added] = [Number(hunk[1]), Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)]
    const first = removed === 0 ? start + 1 : start
    if (line < first) break
    if (line < first + removed) return undefined
    shift += added - removed
  }
  return line + shift
}
