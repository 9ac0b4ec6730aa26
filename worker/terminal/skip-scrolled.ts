/**
 * What of a flood a terminal need not be told, because it will have scrolled away again by the end of it.
 *
 * Reading a terminal's output character by character is the slowest thing that happens to it. Where all that waits is
 * lines and their colours, only the last of them can ever be seen: the others are left out, but for the colour that
 * they end with. What comes of it is the same in every cell.
 */

/** Below it there is nothing to win. */
export const FLOOD_CHARS_MIN = 64 * 1024

/** Whatever is neither a character, nor the end of a line, nor a colour, nor a colour that goes on in what comes next. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this is about
const NOT_PLAIN_LINES = /[\0-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[\d;:]*(?:m|$)|$)/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const COLOUR = /\x1b\[[\d;:]*m/g
const RESETS = ['\x1b[m', '\x1b[0m']

/** Where the part begins that is lines and colours alone. */
export function plainLinesStart(text: string): number {
  let from = 0
  NOT_PLAIN_LINES.lastIndex = 0
  while (NOT_PLAIN_LINES.exec(text) !== null) from = NOT_PLAIN_LINES.lastIndex
  return from
}

/** Where the part ends that is lines and colours alone. */
export const plainLinesEnd = (text: string): number => indexOrEnd(text.search(NOT_PLAIN_LINES), text)

export const indexOrEnd = (at: number, text: string): number => (at === -1 ? text.length : at)

export const isPlainLines = (text: string): boolean => text.search(NOT_PLAIN_LINES) === -1

/** `lines`: lines and colours alone. `seen`: so many of them at the end can still be seen. */
export function skipScrolled(lines: string, visibleLines: number): string {
  let start = lines.length
  for (let n = visibleLines; n > 0; n--) {
    start = lines.lastIndexOf('\r\n', start - 1)
    if (start <= 0) return lines
  }
  return findFinalColour(lines.slice(0, start)) + lines.slice(start)
}

/** What a text ends with: whatever came before the last reset is forgotten. */
export function findFinalColour(text: string): string {
  return (text.slice(findLast(text, RESETS).at).match(COLOUR) ?? []).join('')
}

/** Most of what is said at all is said again and again. */
const TAIL_CHARS = 16 * 1024
/** What every sequence begins with says little of whether it is there; looking for the rest of it is much faster. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const INTRODUCER = /^\x1b\[?/

/** The last of them in a text, and where. */
export function findLast(
  text: string,
  sequences: readonly string[],
): { readonly at: number; readonly is: string } {
  const tailStart = Math.max(0, text.length - TAIL_CHARS)
  const inTail = findLastAmong(text.slice(tailStart), sequences)
  if (inTail.is !== '') return { at: tailStart + inTail.at, is: inTail.is }
  return findLastAmong(
    text,
    sequences.filter((sequence) => text.includes(sequence.replace(INTRODUCER, ''))),
  )
}

function findLastAmong(
  text: string,
  sequences: readonly string[],
): { readonly at: number; readonly is: string } {
  let last = { at: 0, is: '' }
  for (const is of sequences) {
    const at = text.lastIndexOf(is)
    if (at >= last.at) last = { at, is }
  }
  return last
}
