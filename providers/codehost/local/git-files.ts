/**
 * Compares two commits file by file, for the list of changed files of a pull request.
 *
 * Three git commands run at once: names, line counts and patches. Name lists separate their fields with NUL, so
 * a file name cannot imitate a field. Patches follow the order of the name list; no content line can begin with the
 * header that separates them. A patch beyond a limit is left out, because half a patch looks like a whole one.
 */
import { type Result, yes } from '../../../core/result.ts'
import { PATCH_CHARS_MAX, PATH_CHARS_MAX, PULL_FILES_LISTED_MAX } from '../../../protocol/limits.ts'
import type { PullFile } from '../../../protocol/pulls.ts'
import { jsonBytes } from '../../../protocol/text-budget.ts'
import { type GitExit, gitFailure, type RunGit, runGitForText } from './git-run.ts'

export interface TreeDiff {
  readonly files: readonly PullFile[]
  /** Totals of all files, including the files that are not listed. */
  readonly additions: number
  readonly deletions: number
  readonly changedFiles: number
}

interface ChangedFile {
  readonly statusCode: string
  readonly path: string
  readonly previousPath?: string
}

type LineCounts = readonly [additions: number, deletions: number]

const LIST_BYTES_MAX = 2 * 1024 * 1024
const PATCHES_BYTES_MAX = 8 * 1024 * 1024
/** Limit for all names and patches as JSON, where one character may take six bytes. */
const FILES_JSON_BYTES_MAX = 9 * 1024 * 1024
const RENAMES_MAX = 400
const FILE_STATUSES: Readonly<Record<string, string>> = {
  A: 'added',
  C: 'copied',
  D: 'removed',
  M: 'modified',
  R: 'renamed',
  T: 'changed',
}
const NO_CHANGES: TreeDiff = { files: [], additions: 0, deletions: 0, changedFiles: 0 }
/** Options that keep git from running any program that the repository configures. */
const DIFF_ARGS = [
  'diff-tree',
  '-r',
  `-l${RENAMES_MAX}`,
  '--find-renames',
  '--no-ext-diff',
  '--no-textconv',
  '--no-color',
  '--ignore-submodules=none',
]

/** Compares two commits or trees. */
export async function diffTrees(run: RunGit, from: string, to: string): Promise<Result<TreeDiff>> {
  if (from === to) return yes(NO_CHANGES)
  const rawCommand = { args: [...DIFF_ARGS, '-z', '--raw', from, to, '--'], bytesMax: LIST_BYTES_MAX }
  const numstatCommand = { args: [...DIFF_ARGS, '-z', '--numstat', from, to, '--'], bytesMax: LIST_BYTES_MAX }
  const patchCommand = { args: [...DIFF_ARGS, '--patch', from, to, '--'], bytesMax: PATCHES_BYTES_MAX }
  const [list, count, patches] = await Promise.all([run(rawCommand), run(numstatCommand), run(patchCommand)])
  if (!list.ok) return list
  if (list.value.code !== undefined && list.value.code !== 0) return gitFailure(rawCommand, list.value)
  const entries = parseChangedFiles(list.value.output)
  const counts = count.ok ? parseLineCounts(count.value.output) : []
  // Comparing contents takes far longer than listing names. Patches and totals that git did not finish in time are left
  // out.
  const patchTexts = patches.ok ? parsePatches(patches.value, entries) : []
  const files = entries
    .slice(0, PULL_FILES_LISTED_MAX)
    .map((entry, index) => toPullFile(entry, counts[index], patchTexts[index]))
  const totals = await readTotals(run, from, to, count, counts)
  const known = totals.ok ? totals.value : { ...NO_CHANGES, changedFiles: entries.length }
  return yes({ ...known, files: dropOversizedPatches(files) })
}

/** Adds the line counts up. Git counts again only when their list was too long. */
async function readTotals(
  run: RunGit,
  from: string,
  to: string,
  count: Result<GitExit>,
  counts: readonly LineCounts[],
): Promise<Result<Omit<TreeDiff, 'files'>>> {
  if (!count.ok) return count
  const sum = (side: 0 | 1) => counts.reduce((total, each) => total + each[side], 0)
  if (count.value.code === 0)
    return yes({ changedFiles: counts.length, additions: sum(0), deletions: sum(1) })
  return countChanges(run, [from, to])
}

/** Counts files and lines between two trees. @param trees may begin with options that choose the trees */
export async function countChanges(
  run: RunGit,
  trees: readonly string[],
): Promise<Result<Omit<TreeDiff, 'files'>>> {
  const shortstat = await runGitForText(run, { args: [...DIFF_ARGS, '--shortstat', ...trees, '--'] })
  if (!shortstat.ok) return shortstat
  const countMatching = (pattern: RegExp) => Number(pattern.exec(shortstat.value)?.[1] ?? 0)
  return yes({
    changedFiles: countMatching(/(\d+) files? changed/),
    additions: countMatching(/(\d+) insertion/),
    deletions: countMatching(/(\d+) deletion/),
  })
}

// ---- names and line counts ------------------------------------------------------------------------------------------

/** The last field may be truncated, so it is dropped. */
const splitNulFields = (output: Buffer): string[] => output.toString('utf8').split('\0').slice(0, -1)

function parseChangedFiles(output: Buffer): ChangedFile[] {
  const fields = splitNulFields(output)
  const entries: ChangedFile[] = []
  for (let at = 0; at < fields.length; ) {
    const head = fields[at] ?? ''
    const statusCode = head.slice(head.lastIndexOf(' ') + 1)[0] ?? ''
    const hasTwo = statusCode === 'R' || statusCode === 'C'
    const [first, second] = [fields[at + 1], fields[at + 2]]
    const path = hasTwo ? second : first
    if (first === undefined || path === undefined) break
    entries.push({ statusCode, path, ...(hasTwo ? { previousPath: first } : {}) })
    at += hasTwo ? 3 : 2
  }
  return entries
}

/** Line counts in the order of the changed files. */
function parseLineCounts(output: Buffer): LineCounts[] {
  const fields = splitNulFields(output)
  const counts: LineCounts[] = []
  for (let at = 0; at < fields.length; ) {
    const [additions = '', deletions = '', ...path] = (fields[at] ?? '').split('\t')
    // Git prints `-` instead of a count for a binary file.
    counts.push([Number(additions) || 0, Number(deletions) || 0])
    // Two more fields follow a rename: both names. A file name may begin with a tab.
    at += path.join('\t') === '' ? 3 : 1
  }
  return counts
}

function toPullFile(entry: ChangedFile, counts: LineCounts = [0, 0], patch: string | undefined): PullFile {
  return {
    path: entry.path.slice(0, PATH_CHARS_MAX),
    ...(entry.previousPath === undefined
      ? {}
      : { previousPath: entry.previousPath.slice(0, PATH_CHARS_MAX) }),
    status: FILE_STATUSES[entry.statusCode] ?? 'changed',
    additions: counts[0],
    deletions: counts[1],
    ...(patch === undefined ? {} : { patch }),
  }
}

// ---- patches -----------------------------------------------------------------------------------------------------

/** Patches in the order of the changed files. A file that turned into a link, or back, has two sections. */
function parsePatches({ code, output }: GitExit, entries: readonly ChangedFile[]): (string | undefined)[] {
  // Split at `\n` only: `^` in multiline mode also matches after other line separators, which file content may hold.
  const sections = output.toString('utf8').split(/(?<=\n)(?=diff --git )/)
  const completeSections = code === 0 ? sections : sections.slice(0, -1)
  let at = 0
  return entries.map(({ statusCode }) => {
    const count = statusCode === 'T' ? 2 : 1
    const hunks = completeSections.slice(at, at + count).flatMap(extractHunks)
    const isComplete = at + count <= completeSections.length
    at += count
    return isComplete && hunks.length > 0 ? hunks.join('\n') : undefined
  })
}

/** Drops the header of a section, whose facts the list already has. A binary file has no hunks. */
function extractHunks(section: string): string[] {
  const start = section.indexOf('\n@@ ')
  return start === -1 ? [] : [section.slice(start + 1).replace(/\n$/, '')]
}

function dropOversizedPatches(files: readonly PullFile[]): PullFile[] {
  const pathBytes = files.map(({ path, previousPath = '' }) => jsonBytes(path) + jsonBytes(previousPath))
  let bytesLeft = FILES_JSON_BYTES_MAX - pathBytes.reduce((sum, bytes) => sum + bytes, 0)
  return files.map((file) => {
    const { patch, ...rest } = file
    if (patch === undefined) return file
    const bytes = jsonBytes(patch)
    if (patch.length > PATCH_CHARS_MAX || bytes > bytesLeft) return rest
    bytesLeft -= bytes
    return file
  })
}
