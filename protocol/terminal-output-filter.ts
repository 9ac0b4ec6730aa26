/**
 * Filters a session's terminal output down to what only draws: text, colours, cursor movements.
 *
 * Escape sequences can fill a person's clipboard, rename the window, print, or make the terminal answer as if the person
 * had typed. A process in a sandbox may try that, so views receive only the sequences on this list: the worker filters
 * what it sends, and a command filters again before a person's terminal. The worker's own virtual terminal receives
 * everything, and answers. A sequence that is split between two chunks is held back until it is complete.
 */

/** Longer than any allowed sequence. */
const SEQUENCE_CHARS_MAX = 256
/** The bound keeps the time linear in the output. */
const PARAMETERS = '[0-;]{0,250}'

/** Cursor moves, erasing, margins, modes (but for those of the keyboard), colours. */
const UNMARKED = `\\[(?!${PARAMETERS}\\b0*2(?:[:;]${PARAMETERS})?[hl])${PARAMETERS}[ABCDEFGHJK\`adefghlmrsu]`
/** Insertions, scrolls, tabs, repeats: with at most four digits, because a larger count would block a view for hours. */
const COUNTED = '\\[[0-9]{0,4}(?:[:;][0-;]*)?[@ILMPSTXZb]'
const MARKED = `\\[\\?(?!${PARAMETERS}\\b0*(?:2|9001)(?:[:;]${PARAMETERS})?[hl])${PARAMETERS}[hlJK]`
/** Cursor style, soft reset. */
const WITH_INTERMEDIATE = '\\[[0-?]*(?: q|!p)'
/** Save, restore, index, next line, tab, reverse index, reset, keypad modes, shifts. */
const ALONE = '[78DEHMc=>no|}~]'
const CHARACTER_SET = '[()*+][0-~]'
const ALIGNMENT = '#8'
const DRAWING = [UNMARKED, COUNTED, MARKED, WITH_INTERMEDIATE, ALONE, CHARACTER_SET, ALIGNMENT].join('|')

/**
 * Matches everything that is not allowed, so that allowed text is skipped in one search. The alternatives in order: a
 * control sequence; the beginning of a string (title, clipboard, device commands); any other complete escape; a lone
 * escape; and characters that a terminal answers to or reads as an escape.
 */
const NOT_DRAWING = new RegExp(
  `\\x1b(?!${DRAWING})(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_k]|[ -/]*[0-~]|)|[\\x05\\x80-\\x9f]`,
  'g',
)
/** An escape sequence at the end that the next chunk may complete. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are control characters
const UNFINISHED = /\x1b(?:\[[0-?]*[ -/]*|[ -/]*)$/
/** The end of a string, or a character that aborts it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are control characters
const STRING_END = /[\x07\x18\x1a\x9c]|\x1b\\?/g

export class TerminalOutputFilter {
  #unfinished = ''
  /** Inside a string (title, clipboard, …) whose end has not arrived yet. */
  #inString = false

  /** The next chunk of output, reduced to what draws. */
  filter(data: string): string {
    const text = this.#unfinished + data
    this.#unfinished = ''
    return this.#inString ? this.#skipString(text) : this.#keepDrawing(text)
  }

  #keepDrawing(text: string): string {
    const start = this.#unfinishedStart(text)
    const whole = start === text.length ? text : text.slice(0, start)
    let drawn = ''
    let from = 0
    NOT_DRAWING.lastIndex = 0
    for (let found = NOT_DRAWING.exec(whole); found !== null; found = NOT_DRAWING.exec(whole)) {
      drawn += whole.slice(from, found.index)
      from = NOT_DRAWING.lastIndex
      if (!opensString(found[0])) continue
      this.#unfinished = ''
      this.#inString = true
      return drawn + this.#skipString(text.slice(from))
    }
    return from === 0 ? whole : drawn + whole.slice(from)
  }

  /** The start of an unfinished sequence at the end, which is held back; the text's length if there is none. */
  #unfinishedStart(text: string): number {
    const end = text.slice(-SEQUENCE_CHARS_MAX)
    const last = end.lastIndexOf('\x1b')
    if (last === -1 || !UNFINISHED.test(end.slice(last))) return text.length
    this.#unfinished = end.slice(last)
    return text.length - this.#unfinished.length
  }

  #skipString(text: string): string {
    STRING_END.lastIndex = 0
    const end = STRING_END.exec(text)
    if (end === null) return ''
    if (end[0] === '\x1b' && STRING_END.lastIndex === text.length) {
      this.#unfinished = '\x1b'
      return ''
    }
    this.#inString = false
    // Any other escape aborts the string and begins a sequence of its own.
    return this.#keepDrawing(text.slice(end[0] === '\x1b' ? end.index : STRING_END.lastIndex))
  }
}

const opensString = (found: string): boolean => found.length === 2 && ']PX^_k'.includes(found.charAt(1))
