/**
 * What changed between two commits, file by file, as people read it.
 *
 * The list and the patches come from two questions. The list ends its fields with a NUL, so no name can pretend to be
 * something else; the patches quote names, stand in the list's order, and are told apart by a line that no content
 * can begin with. Patches that are too long are left out, never torn: half a patch looks like a whole one.
 */
import { type Result, yes } from '../../core/result.ts'
import { PATCH_CHARS_MAX, PATH_CHARS_MAX, PULL_FILES_LISTED_MAX } from '../../protocol/limits.ts'
import type { PullFile } from '../../protocol/pulls.ts'
import { type GitDone, gitFailed, gitText, type RunGit } from './git-run.ts'

export interface Changes {
  readonly files: readonly PullFile[]
  /** Of all files, also of those that are not listed. */
  readonly additions: number
  readonly deletions: number
  readonly changedFiles: number
}

interface Entry {
  readonly letter: string
  readonly path: string
  readonly previous?: string
}

type Counts = readonly [additions: number, deletions: number]

const LIST_BYTES_MAX = 2 * 1024 * 1024
const PATCHES_BYTES_MAX = 8 * 1024 * 1024
/** Of all names and patches as JSON, in which one character may become six. */
const FILES_JSON_BYTES_MAX = 9 * 1024 * 1024
const RENAMES_MAX = 400
const STATUSES: Readonly<Record<string, string>> = {
  A: 'added',
  C: 'copied',
  D: 'removed',
  M: 'modified',
  R: 'renamed',
  T: 'changed',
}
const NOTHING: Changes = { files: [], additions: 0, deletions: 0, changedFiles: 0 }
/** Nothing of the repository's is run to find out what is different. */
const DIFF = [
  'diff-tree',
  '-r',
  `-l${RENAMES_MAX}`,
  '--find-renames',
  '--no-ext-diff',
  '--no-textconv',
  '--no-color',
  '--ignore-submodules=none',
]

/** From a commit or tree to another. */
export async function changesBetween(run: RunGit, from: string, to: string): Promise<Result<Changes>> {
  if (from === to) return yes(NOTHING)
  const listed = { args: [...DIFF, '-z', '--raw', from, to, '--'], bytesMax: LIST_BYTES_MAX }
  const counted = { args: [...DIFF, '-z', '--numstat', from, to, '--'], bytesMax: LIST_BYTES_MAX }
  const patched = { args: [...DIFF, '--patch', from, to, '--'], bytesMax: PATCHES_BYTES_MAX }
  const [list, count, patches, sums] = await Promise.all([
    run(listed),
    run(counted),
    run(patched),
    sumsOf(run, from, to),
  ])
  if (!list.ok) return list
  if (list.value.code !== undefined && list.value.code !== 0) return gitFailed(listed, list.value)
  const entries = entriesIn(list.value.output)
  const counts = count.ok ? countsIn(count.value.output) : []
  // To compare takes much longer than to list: a patch or a sum that is not done in time is not to be had.
  const texts = patches.ok ? patchesIn(patches.value, entries) : []
  const files = entries
    .slice(0, PULL_FILES_LISTED_MAX)
    .map((entry, index) => fileOf(entry, counts[index], texts[index]))
  const totals = sums.ok ? sums.value : { ...NOTHING, changedFiles: entries.length }
  return yes({ ...totals, files: withinBounds(files) })
}

async function sumsOf(run: RunGit, from: string, to: string): Promise<Result<Omit<Changes, 'files'>>> {
  const shown = await gitText(run, { args: [...DIFF, '--shortstat', from, to, '--'] })
  if (!shown.ok) return shown
  const number = (what: RegExp) => Number(what.exec(shown.value)?.[1] ?? 0)
  return yes({
    changedFiles: number(/(\d+) files? changed/),
    additions: number(/(\d+) insertion/),
    deletions: number(/(\d+) deletion/),
  })
}

// ---- the list ----------------------------------------------------------------------------------------------------

/** What is cut off at its end is left out. */
const fieldsIn = (output: Buffer): string[] => output.toString('utf8').split('\0').slice(0, -1)

function entriesIn(output: Buffer): Entry[] {
  const fields = fieldsIn(output)
  const entries: Entry[] = []
  for (let at = 0; at < fields.length; ) {
    const head = fields[at] ?? ''
    const letter = head.slice(head.lastIndexOf(' ') + 1)[0] ?? ''
    const hasTwo = letter === 'R' || letter === 'C'
    const [first, second] = [fields[at + 1], fields[at + 2]]
    const path = hasTwo ? second : first
    if (first === undefined || path === undefined) break
    entries.push({ letter, path, ...(hasTwo ? { previous: first } : {}) })
    at += hasTwo ? 3 : 2
  }
  return entries
}

/** In the order of the entries. */
function countsIn(output: Buffer): Counts[] {
  const fields = fieldsIn(output)
  const counts: Counts[] = []
  for (let at = 0; at < fields.length; ) {
    const [additions = '', deletions = '', ...path] = (fields[at] ?? '').split('\t')
    // Of a binary file there are none to count.
    counts.push([Number(additions) || 0, Number(deletions) || 0])
    // A renamed file has its two names behind; a name may begin with a tab.
    at += path.join('\t') === '' ? 3 : 1
  }
  return counts
}

function fileOf(entry: Entry, counts: Counts = [0, 0], patch: string | undefined): PullFile {
  return {
    path: entry.path.slice(0, PATH_CHARS_MAX),
    ...(entry.previous === undefined ? {} : { previousPath: entry.previous.slice(0, PATH_CHARS_MAX) }),
    status: STATUSES[entry.letter] ?? 'changed',
    additions: counts[0],
    deletions: counts[1],
    ...(patch === undefined ? {} : { patch }),
  }
}

// ---- patches -----------------------------------------------------------------------------------------------------

/** In the order of the entries; a file that became a link, or the reverse, has two sections. */
function patchesIn({ code, output }: GitDone, entries: readonly Entry[]): (string | undefined)[] {
  // Not by a pattern's own idea of a line: content may hold whatever else ends one, and pretend to be a section.
  const sections = output.toString('utf8').split(/(?<=\n)(?=diff --git )/)
  const whole = code === 0 ? sections : sections.slice(0, -1)
  let at = 0
  return entries.map(({ letter }) => {
    const count = letter === 'T' ? 2 : 1
    const hunks = whole.slice(at, at + count).flatMap(hunksOf)
    const isWhole = at + count <= whole.length
    at += count
    return isWhole && hunks.length > 0 ? hunks.join('\n') : undefined
  })
}

/** Without the lines above, which say what the record says. A binary file has none. */
function hunksOf(section: string): string[] {
  const start = section.indexOf('\n@@ ')
  return start === -1 ? [] : [section.slice(start + 1).replace(/\n$/, '')]
}

function withinBounds(files: readonly PullFile[]): PullFile[] {
  const named = files.map(({ path, previousPath = '' }) => jsonBytes(path) + jsonBytes(previousPath))
  let left = FILES_JSON_BYTES_MAX - named.reduce((sum, bytes) => sum + bytes, 0)
  return files.map((file) => {
    const { patch, ...rest } = file
    if (patch === undefined) return file
    const bytes = jsonBytes(patch)
    if (patch.length > PATCH_CHARS_MAX || bytes > left) return rest
    left -= bytes
    return file
  })
}

const jsonBytes = (text: string): number => Buffer.byteLength(JSON.stringify(text))
