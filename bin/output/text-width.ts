/**
 * Measures, truncates and wraps text in columns of a terminal, grapheme by grapheme.
 *
 * East Asian wide characters and emoji have two columns, combining marks none, ambiguous characters one. Text of ASCII
 * characters takes a short path, so that a command that prints nothing else never creates a segmenter.
 */
import { SEQUENCE } from '../../client/escape-sequences.ts'

/** Prose is hard to read in longer lines. */
export const PROSE_COLUMNS_MAX = 100

const PRINTABLE_ASCII = /^[\x20-\x7e]*$/
/** The joiners are no control characters: they shape emoji and some scripts. */
const CONTROLS = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu
const JOINERS = /[\u200c\u200d]/
const EMOJI = /\p{Emoji_Presentation}|\ufe0f/u
const NO_COLUMNS = /[\p{M}\p{Cf}\u1160-\u11ff\ud7b0-\ud7ff]/u
/** The characters that Unicode calls East Asian wide or full width, without emoji. */
const WIDE =
  /[\u1100-\u115f\u2329\u232a\u2e80-\u303e\u3041-\u3247\u3250-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6b\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18d08}\u{1aff0}-\u{1b2fb}\u{1f200}-\u{1f265}\u{20000}-\u{3fffd}]/u

export function columnsOf(text: string): number {
  if (PRINTABLE_ASCII.test(text)) return text.length
  return graphemesOf(text).reduce((sum, grapheme) => sum + graphemeColumns(grapheme), 0)
}

/** Replaces control and invisible characters by `?`, so that foreign text controls no terminal; lines stay lines. */
export function replaceControls(text: string): string {
  return text
    .replace(/\r\n/g, '\n')
    .replace(CONTROLS, (found) => (found === '\n' || found === '\t' || JOINERS.test(found) ? found : '?'))
}

/** Like `replaceControls`, in one line: a line end or a tab becomes a space. */
export function cleanLine(text: string): string {
  return PRINTABLE_ASCII.test(text) ? text : replaceControls(text).replace(/[\n\t]/g, ' ')
}

/** For a terminal that draws ASCII only. */
export function toAscii(text: string): string {
  if (PRINTABLE_ASCII.test(text)) return text
  return graphemesOf(text)
    .map((grapheme) => (/^[\x20-\x7e\n\t]/.test(grapheme) ? grapheme.charAt(0) : '?'))
    .join('')
}

/** Truncates a sentence at its end. */
export function truncateEnd(text: string, columns: number, ellipsis = '…'): string {
  if (columnsOf(text) <= columns) return text
  if (columns < columnsOf(ellipsis)) return ellipsis.slice(0, Math.max(0, columns))
  return `${headOf(graphemesOf(text), columns - columnsOf(ellipsis))}${ellipsis}`
}

/** Truncates a path or an identifier in its middle, because both ends tell it from others. */
export function truncateMiddle(text: string, columns: number, ellipsis = '…'): string {
  if (columnsOf(text) <= columns) return text
  const left = columns - columnsOf(ellipsis)
  if (left < 2) return truncateEnd(text, columns, ellipsis)
  const graphemes = graphemesOf(text)
  const head = headOf(graphemes, Math.ceil(left / 2))
  const tail = tailOf(graphemes, left - columnsOf(head))
  return `${head}${ellipsis}${tail}`
}

/** Wraps prose at words; its indentation stays in the first line. A longer word is a whole line of its own. */
export function wrapWords(text: string, columns: number): string[] {
  const columnsMax = Math.min(columns, PROSE_COLUMNS_MAX)
  const [indentation = ''] = /^ */.exec(text) ?? []
  const [first = '', ...words] = text.slice(indentation.length).split(/ +/)
  const lines: string[] = []
  let line = indentation + first
  for (const word of words) {
    const longer = `${line} ${word}`
    if (columnsOf(longer) <= columnsMax) line = longer
    else {
      lines.push(line)
      line = word
    }
  }
  return [...lines, line]
}

export const padEnd = (text: string, columns: number): string =>
  text + ' '.repeat(Math.max(0, columns - columnsOf(text)))

export const padStart = (text: string, columns: number): string =>
  ' '.repeat(Math.max(0, columns - columnsOf(text))) + text

// ---- graphemes -----------------------------------------------------------------------------------------------------

let segmenter: Intl.Segmenter | undefined

function graphemesOf(text: string): string[] {
  if (PRINTABLE_ASCII.test(text)) return [...text]
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' })
  return [...segmenter.segment(text)].map(({ segment }) => segment)
}

function graphemeColumns(grapheme: string): number {
  if (EMOJI.test(grapheme)) return 2
  let columns = 0
  for (const character of grapheme) if (!NO_COLUMNS.test(character)) columns += WIDE.test(character) ? 2 : 1
  return columns
}

function headOf(graphemes: readonly string[], columns: number): string {
  return fitting(graphemes, columns).join('')
}

function tailOf(graphemes: readonly string[], columns: number): string {
  return fitting([...graphemes].reverse(), columns)
    .reverse()
    .join('')
}

/** The first graphemes that fit together. */
function fitting(graphemes: readonly string[], columns: number): string[] {
  let used = 0
  const end = graphemes.findIndex((grapheme) => {
    used += graphemeColumns(grapheme)
    return used > columns
  })
  return graphemes.slice(0, end === -1 ? undefined : end)
}

// ---- colours of others ---------------------------------------------------------------------------------------------

// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with a control character
const COLOR = /^\x1b\[[0-9;:]*m$/
const RESET = '\x1b[0m'

/** Makes a line of a program's output safe to print: only sequences that set colours pass, and only to terminals. */
export function keepColors(line: string, hasColors: boolean): string {
  let [text, at, isColored] = ['', 0, false]
  for (const { 0: sequence, index } of line.matchAll(SEQUENCE)) {
    text += replaceControls(line.slice(at, index))
    at = index + sequence.length
    if (!hasColors || !COLOR.test(sequence)) continue
    text += sequence
    isColored = true
  }
  text += replaceControls(line.slice(at))
  return isColored ? `${text}${RESET}` : text
}
