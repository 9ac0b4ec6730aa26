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
const OTHER = /[\0-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[\d;:]*(?:m|$)|$)/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const COLOUR = /\x1b\[[\d;:]*m/g
const RESETS = ['\x1b[m', '\x1b[0m']

/** Where the part begins that is lines and colours alone. */
export function linesFrom(text: string): number {
  let from = 0
  OTHER.lastIndex = 0
  while (OTHER.exec(text) !== null) from = OTHER.lastIndex
  return from
}

/** Where the part ends that is lines and colours alone. */
export const linesUntil = (text: string): number => found(text.search(OTHER), text)

export const found = (at: number, text: string): number => (at === -1 ? text.length : at)

export const areLines = (text: string): boolean => text.search(OTHER) === -1

/** `lines`: lines and colours alone. `seen`: so many of them at the end can still be seen. */
export function withoutScrolledAway(lines: string, seen: number): string {
  let cut = lines.length
  for (let n = seen; n > 0; n--) {
    cut = lines.lastIndexOf('\r\n', cut - 1)
    if (cut <= 0) return lines
  }
  return colourOf(lines.slice(0, cut)) + lines.slice(cut)
}

/** What a text ends with: whatever came before the last reset is forgotten. */
export function colourOf(text: string): string {
  return (text.slice(lastOf(text, RESETS).at).match(COLOUR) ?? []).join('')
}

/** Most of what is said at all is said again and again. */
const NEAR_CHARS = 16 * 1024
/** What every sequence begins with says little of whether it is there; looking for the rest of it is much faster. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const INTRODUCTION = /^\x1b\[?/

/** The last of them in a text, and where. */
export function lastOf(
  text: string,
  sequences: readonly string[],
): { readonly at: number; readonly is: string } {
  const before = Math.max(0, text.length - NEAR_CHARS)
  const near = lastAmong(text.slice(before), sequences)
  if (near.is !== '') return { at: before + near.at, is: near.is }
  return lastAmong(
    text,
    sequences.filter((one) => text.includes(one.replace(INTRODUCTION, ''))),
  )
}

function lastAmong(text: string, sequences: readonly string[]): { readonly at: number; readonly is: string } {
  let last = { at: 0, is: '' }
  for (const is of sequences) {
    const at = text.lastIndexOf(is)
    if (at >= last.at) last = { at, is }
  }
  return last
}
