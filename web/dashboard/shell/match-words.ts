/** Finds typed words in a text, each wherever it stands, without regard to case. */

/** The ranges of all words, in their order and without overlaps; undefined when a word is missing. */
export function matchWords(text: string, typed: string): (readonly [from: number, to: number])[] | undefined {
  const lower = text.toLowerCase()
  const ranges: (readonly [number, number])[] = []
  for (const word of typed.toLowerCase().split(/\s+/).filter(Boolean)) {
    const from = lower.indexOf(word)
    if (from === -1) return undefined
    ranges.push([from, from + word.length])
  }
  ranges.sort(([a], [b]) => a - b)
  return ranges.filter(([from], at) => from >= (ranges[at - 1]?.[1] ?? 0))
}
