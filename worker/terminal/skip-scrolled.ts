/**
 * Skips output of a flood that will have scrolled away by its end, before the terminal emulator parses it.
 *
 * Parsing terminal output character by character is the most expensive step. When the pending output consists only of
 * lines and colours, only the last lines can be visible or in the scrollback; the others are dropped, except for the
 * colour they end with. The resulting screen is identical in every cell.
 */

/** For less output, skipping saves nothing. */
export const FLOOD_CHARS_MIN = 64 * 1024

/** Matches anything but printable characters, line ends, colours, and a colour sequence cut off at the end. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters
const NOT_PLAIN_LINES = /[\0-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[\d;:]*(?:m|$)|$)/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const COLOUR = /\x1b\[[\d;:]*m/g
const RESETS = ['\x1b[m', '\x1b[0m']

/** Returns where the trailing part of only lines and colours starts. */
export function plainLinesStart(text: string): number {
  let from = 0
  NOT_PLAIN_LINES.lastIndex = 0
  while (NOT_PLAIN_LINES.exec(text) !== null) from = NOT_PLAIN_LINES.lastIndex
  return from
}

/** Returns where the leading part of only lines and colours ends. */
export const plainLinesEnd = (text: string): number => indexOrEnd(text.search(NOT_PLAIN_LINES), text)

export const indexOrEnd = (at: number, text: string): number => (at === -1 ? text.length : at)

export const isPlainLines = (text: string): boolean => text.search(NOT_PLAIN_LINES) === -1

/** `lines` must contain only lines and colours. The last `visibleLines` of them may be visible or in the scrollback. */
export function skipScrolled(lines: string, visibleLines: number): string {
  let start = lines.length
  for (let n = visibleLines; n > 0; n--) {
    start = lines.lastIndexOf('\r\n', start - 1)
    if (start <= 0) return lines
  }
  return findFinalColour(lines.slice(0, start)) + lines.slice(start)
}

/** Returns the colour sequences in effect at the end of a text, starting at its last reset. */
export function findFinalColour(text: string): string {
  return (text.slice(findLast(text, RESETS).at).match(COLOUR) ?? []).join('')
}

/** Sequences usually repeat often, so the last occurrence is mostly near the end. */
const TAIL_CHARS = 16 * 1024
/** Searching for a sequence without its common introducer is much faster. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const INTRODUCER = /^\x1b\[?/

/** Finds which of the sequences occurs last in a text, and where. */
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
