/**
 * The rows of a diff: heads of files, heads of hunks, lines with their numbers, and notes where there are no lines.
 *
 * The list is flat, because only the rows in view are in the document.
 */
import parseDiff from 'parse-diff'
import type { PullFile, ReviewLineComment } from '../../../protocol/pulls.ts'

export type DiffFile = Pick<
  PullFile,
  'path' | 'previousPath' | 'status' | 'additions' | 'deletions' | 'patch'
>

/** The place of a line, as a review's comment names it. */
export type LinePlace = Pick<ReviewLineComment, 'path' | 'line' | 'side'>

export interface DiffLine {
  readonly kind: 'context' | 'added' | 'removed'
  readonly before?: number
  readonly after?: number
  readonly text: string
  readonly change?: DiffChange
  /** The position among the removed or the added lines of its change. */
  readonly inChange?: number
}

export type DiffNote = 'binary' | 'too-large' | 'renamed' | 'no-newline'

export type DiffRow =
  | { readonly is: 'file'; readonly file: number }
  | { readonly is: 'hunk'; readonly file: number; readonly text: string }
  | { readonly is: 'line'; readonly file: number; readonly line: DiffLine }
  | { readonly is: 'note'; readonly file: number; readonly note: DiffNote }

/** Removed lines and the added lines that follow them; their words are compared when they are first drawn. */
class DiffChange {
  readonly removed: string[] = []
  readonly added: string[] = []
  #words: ChangedWords | undefined

  wordsOf({ kind, inChange = 0 }: DiffLine): readonly WordRange[] {
    if (kind === 'context') return []
    this.#words ??= changedWords(this.removed, this.added)
    return this.#words[kind][inChange] ?? []
  }
}

export const changedWordsOf = (line: DiffLine): readonly WordRange[] => line.change?.wordsOf(line) ?? []

/** The rows of one file, beginning with its head. */
export function rowsOfFile(changed: DiffFile, file: number): DiffRow[] {
  const head: DiffRow = { is: 'file', file }
  if (changed.patch === undefined || changed.patch === '')
    return [head, { is: 'note', file, note: noteWithoutPatch(changed) }]
  const rows: DiffRow[] = [head]
  for (const { content, changes } of parseDiff(changed.patch).flatMap(({ chunks }) => chunks)) {
    rows.push({ is: 'hunk', file, text: content })
    let change: DiffChange | undefined
    for (const each of changes) {
      if (each.content.startsWith('\\')) {
        rows.push({ is: 'note', file, note: 'no-newline' })
        continue
      }
      const text = each.content.slice(1)
      if (each.type === 'normal') {
        change = undefined
        rows.push({ is: 'line', file, line: { kind: 'context', before: each.ln1, after: each.ln2, text } })
        continue
      }
      // A removed line after added ones begins a new change.
      if (change === undefined || (each.type === 'del' && change.added.length > 0)) change = new DiffChange()
      const [kind, lines] =
        each.type === 'add' ? (['added', change.added] as const) : (['removed', change.removed] as const)
      const number = each.type === 'add' ? { after: each.ln } : { before: each.ln }
      rows.push({ is: 'line', file, line: { kind, ...number, text, change, inChange: lines.length } })
      lines.push(text)
    }
  }
  return rows
}

function noteWithoutPatch({ status, additions, deletions }: DiffFile): DiffNote {
  if (additions + deletions > 0) return 'too-large'
  return status === 'renamed' ? 'renamed' : 'binary'
}

/** Comments on a line that did not change belong to the file with the change. */
export function placeOf(path: string, { kind, before = 0, after = 0 }: DiffLine): LinePlace {
  return kind === 'removed' ? { path, line: before, side: 'LEFT' } : { path, line: after, side: 'RIGHT' }
}

/** A text that tells places apart. */
export const placeKey = ({ path, line, side }: LinePlace): string => `${side} ${line} ${path}`

/** The lines of one file from one place to another on the same side, without lines of the opposite side only. */
export function linesBetween(rows: readonly DiffRow[], from: LinePlace, to: LinePlace): DiffLine[] {
  const key = to.side === 'LEFT' ? 'before' : 'after'
  const [first, last] = [Math.min(from.line, to.line), Math.max(from.line, to.line)]
  return rows.flatMap((row) => {
    const number = row.is === 'line' ? row.line[key] : undefined
    return row.is === 'line' && number !== undefined && number >= first && number <= last ? [row.line] : []
  })
}

/** `src/auth/` and `session.ts`. */
export function splitPath(path: string): readonly [folder: string, name: string] {
  const end = path.lastIndexOf('/') + 1
  return [path.slice(0, end), path.slice(end)]
}

// ---- changed words -------------------------------------------------------------------------------------------------

type WordRange = readonly [from: number, to: number]

/** The marked ranges of each line, in the order of the lines. */
interface ChangedWords {
  readonly removed: readonly (readonly WordRange[])[]
  readonly added: readonly (readonly WordRange[])[]
}

interface Word {
  readonly text: string
  readonly line: number
  readonly from: number
}

const WORD = /[\p{L}\p{N}_$]+|[^\s]/gu
/** Comparing takes time and memory of the product of both numbers of words. */
const PRODUCT_MAX = 200_000
/** Below this share of equal characters the lines have little in common. */
const EQUAL_SHARE_MIN = 0.35

/**
 * The words that differ between the removed and the added lines of one change.
 *
 * The lines of a change are compared as a whole, word by word, so that a call that was spread over several lines shows
 * its new arguments only. Lines that have little in common get no marks: everything in them is new.
 */
export function changedWords(removed: readonly string[], added: readonly string[]): ChangedWords {
  const none = { removed: removed.map(() => []), added: added.map(() => []) }
  const [before, after] = [wordsOf(removed), wordsOf(added)]
  if (before.length === 0 || after.length === 0 || before.length * after.length > PRODUCT_MAX) return none
  const equal = equalWords(before, after)
  const share =
    charsOf(before.filter((_, at) => equal.before.has(at))) / Math.max(charsOf(before), charsOf(after))
  if (share < EQUAL_SHARE_MIN) return none
  return {
    removed: markedRanges(removed, before, equal.before),
    added: markedRanges(added, after, equal.after),
  }
}

const wordsOf = (lines: readonly string[]): Word[] =>
  lines.flatMap((text, line) =>
    [...text.matchAll(WORD)].map((found) => ({ text: found[0], line, from: found.index })),
  )

const charsOf = (words: readonly Word[]): number => words.reduce((sum, { text }) => sum + text.length, 0)

/** The positions of a longest common subsequence, on both sides. */
function equalWords(before: readonly Word[], after: readonly Word[]) {
  const columns = after.length + 1
  const lengths = new Uint16Array((before.length + 1) * columns)
  const lengthAt = (row: number, column: number): number => lengths[row * columns + column] ?? 0
  for (let row = before.length - 1; row >= 0; row--)
    for (let column = after.length - 1; column >= 0; column--)
      lengths[row * columns + column] =
        before[row]?.text === after[column]?.text
          ? lengthAt(row + 1, column + 1) + 1
          : Math.max(lengthAt(row + 1, column), lengthAt(row, column + 1))
  const equal = { before: new Set<number>(), after: new Set<number>() }
  for (let [row, column] = [0, 0]; row < before.length && column < after.length; ) {
    if (before[row]?.text === after[column]?.text) {
      equal.before.add(row++)
      equal.after.add(column++)
    } else if (lengthAt(row + 1, column) >= lengthAt(row, column + 1)) row++
    else column++
  }
  return equal
}

function markedRanges(
  lines: readonly string[],
  words: readonly Word[],
  equal: ReadonlySet<number>,
): WordRange[][] {
  const ranges: [number, number][][] = lines.map(() => [])
  const hasEqual = new Set<number>()
  for (const [at, { text, line, from }] of words.entries()) {
    if (equal.has(at)) {
      hasEqual.add(line)
      continue
    }
    const own = ranges[line]
    const last = own?.at(-1)
    const isNext = last !== undefined && lines[line]?.slice(last[1], from).trim() === ''
    if (isNext) last[1] = from + text.length
    else own?.push([from, from + text.length])
  }
  // A line that is new as a whole has its colour already.
  return ranges.map((own, line) => (hasEqual.has(line) ? own : []))
}
