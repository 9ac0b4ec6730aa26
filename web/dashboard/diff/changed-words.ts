/**
 * The words that differ between the removed and the added lines of one change.
 *
 * The lines of a change are compared as a whole, word by word, so that a call that was spread over several lines shows
 * its new arguments only. Lines that have little in common get no marks: everything in them is new.
 */

export type WordRange = readonly [from: number, to: number]

/** The marked ranges of each line, in the order of the lines. */
export interface ChangedWords {
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
