/**
 * What of a session's output only draws: text, colours, where the cursor goes. The rest is not for its views.
 *
 * A terminal that somebody sits at can be told to fill the clipboard, to name its window, to print, or to answer as if
 * its person had typed. Whatever runs in a sandbox may try that, so a view gets only what is on the list here; the
 * worker's own terminal hears everything, and answers. Nothing that is cut in two by where a piece ends gets past: the
 * unfinished part waits for the rest.
 */

/** Longer than any sequence on the list; what is longer is none of them. */
const SEQUENCE_CHARS_MAX = 256

/** Moves, erasures, margins, modes, colours: without a mark in front, or with a question mark. */
const UNMARKED = '\\[[0-;]*[ABCDEFGHJK`adefghlmrsu]'
/** Insertions, scrolls, tabs, repeats: no more of them at once than a screen can hold, or a view is busy for hours. */
const COUNTED = '\\[[0-9]{0,4}(?:[:;][0-;]*)?[@ILMPSTXZb]'
const MARKED = '\\[\\?[0-;]*[hlJK]'
/** The cursor's form, a soft reset. */
const WITH_INTERMEDIATE = '\\[[0-?]*(?: q|!p)'
/** Save, restore, index, next line, tab, reverse index, reset, keypad modes, shifts. */
const ALONE = '[78DEHMc=>no|}~]'
const CHARACTER_SET = '[()*+][0-~]'
const ALIGNMENT = '#8'
const DRAWING = [UNMARKED, COUNTED, MARKED, WITH_INTERMEDIATE, ALONE, CHARACTER_SET, ALIGNMENT].join('|')

/**
 * What is not on the list, and nothing else, so that whatever is costs one step of a search and no more. In turn: a
 * control sequence; the beginning of a string (title, clipboard, device commands); any other escape, complete; an escape
 * that is nothing; and what a terminal answers to, or takes for an escape.
 */
const NOT_DRAWING = new RegExp(
  `\\x1b(?!${DRAWING})(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_]|[ -/]*[0-~]|)|[\\x05\\x80-\\x9f]`,
  'g',
)
/** Where one may go on in the next piece. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const UNFINISHED = /\x1b(?:\[[0-?]*[ -/]*|[ -/]*)$/
/** The end of a string, or what breaks it off. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const STRING_END = /[\x07\x18\x1a\x9c]|\x1b\\?/g

export class TerminalOutputFilter {
  #unfinished = ''
  /** Within a string whose end has not come yet. */
  #inString = false

  /** The next piece of the output, without what does not draw. */
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

  /** Where the part begins that may go on in the next piece. */
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
    // Any other escape breaks the string off, and begins something itself.
    return this.#keepDrawing(text.slice(end[0] === '\x1b' ? end.index : STRING_END.lastIndex))
  }
}

const opensString = (found: string): boolean => found.length === 2 && ']PX^_'.includes(found.charAt(1))
