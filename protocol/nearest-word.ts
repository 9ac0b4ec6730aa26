/** Finds the known word that somebody meant who made a typo. */
import { ERROR_VALUE_CHARS_MAX } from './limits.ts'

/** Undefined when no word is near enough. */
export function nearestWord(word: string, known: readonly string[]): string | undefined {
  if (word.length > ERROR_VALUE_CHARS_MAX) return undefined
  const typed = word.toLowerCase()
  const close = known.map((name) => ({ name, apart: typoDistance(typed, name.toLowerCase()) }))
  const best = close.reduce((a, b) => (b.apart < a.apart ? b : a), { name: '', apart: Infinity })
  return best.apart <= Math.ceil(word.length / 4) ? best.name : undefined
}

/** Swapped letters count as one typo. */
function typoDistance(typed: string, name: string): number {
  const sorted = (word: string) => [...word].sort().join('')
  return sorted(typed) === sorted(name) ? 1 : editDistance(typed, name)
}

/** The edit distance: letters to add, remove or change to turn one word into the other. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [i, character] of [...from].entries()) {
    const next = [i + 1]
    for (let j = 1; j <= to.length; j++) {
      const change = (row[j - 1] ?? 0) + (character === to[j - 1] ? 0 : 1)
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[to.length] ?? 0
}
