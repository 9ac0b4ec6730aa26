/** Truncates a line at the width of a terminal, counting the columns of each character as it is shown. */

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' })
const WIDE =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Extended_Pictographic}\u3000-\u303f\uff01-\uff60]/u

export function truncateToWidth(line: string, columns: number): string {
  const parts = [...graphemes.segment(line)].map(({ segment }) => segment)
  if (sumOf(parts) <= columns) return line
  let [kept, used] = ['', 0]
  for (const part of parts) {
    used += columnsOf(part)
    if (used > columns - 1) break
    kept += part
  }
  return `${kept}…`
}

const columnsOf = (grapheme: string): number => (WIDE.test(grapheme) ? 2 : 1)
const sumOf = (parts: readonly string[]): number => parts.reduce((sum, part) => sum + columnsOf(part), 0)
