/**
 * Filters a session's output for the person's terminal: everything that only draws passes unchanged.
 *
 * Removed are sequences with effects beyond the window (clipboard, title, notifications, files, printing, locks and other
 * encodings of the keyboard, which would outlast the session), links to anything but web pages, and all queries, because
 * the terminal's answer would be typed into the session, once for each view. The content that an agent
 * reads may control what it prints, so its output is not trusted. An incomplete sequence is held back until the next
 * chunk completes it.
 */

/** Longer sequences are dropped, because they would have to be held back until their end. */
const SEQUENCE_CHARS_MAX = 256
const LINK_CHARS_MAX = 4_096

/** The final letters of removed sequences, by the private marker after the bracket. */
const REFUSED_FINALS: Readonly<Record<string, string>> = {
  '': 'cintx',
  '?': 'imnSu',
  '>': 'cfmnqtTu',
  '=': 'cu',
  '<': 'u',
}
/** Most sequences with an intermediate character are queries; these draw or set how something is drawn. */
const DRAWING_WITH_INTERMEDIATE = new Set([' q', ' @', ' A', '!p', '"q', "'}", "'~", '#{', '#}', '#p', '#q'])

// biome-ignore-start lint/suspicious/noControlCharactersInRegex: control characters are what this is about
/** The end of plain text: an escape, an enquiry, or an 8-bit control, which some terminals still obey. */
const SPECIAL = /[\x05\x1b\x80-\x9f]/g
/** The most frequent drawing sequences, matched at once when they are complete. */
const COMMON_SEQUENCE =
  /\x1b\[(?:[\d;:]{0,200}[@-HJ-MPSTX`a-bd-gmrsu]|\?(?![\d;]{0,200}(?:\b0*2|9001)[;hl])[\d;]{0,200}[hl])/y
const CSI = /^\x1b\[(?<private>[<-?]?)[\x30-\x3f]*(?<sign>[\x20-\x2f]*)(?<final>[\x40-\x7e])$/
/** A locked keyboard, one of the VT52, and keys as Windows encodes them. */
const KEYBOARD_MODE = /^\x1b\[(?:\?[\d;:]*(?:\b0*2|\b0*9001)|[\d;:]*\b0*2)(?:[;:][\d;:]*)?[hl]$/
/** A hyperlink to a web page, or the end of one. */
const LINK = /^\x1b\]8;[^;]*;(?:https?:\/\/[\x21-\x7e]+)?$/i
/** The end of a string, or what aborts it. */
const STRING_ENDS = /[\x07\x18\x1a\x1b\x9c]/g
// biome-ignore-end lint/suspicious/noControlCharactersInRegex: as above

const ESC = '\x1b'
/** The oldest query, and the terminator of a string that has ended already. */
const REFUSED_ESCAPES = [`${ESC}Z`, `${ESC}\\`]
const LINK_BEGIN = `${ESC}]8;`
const BEL = '\x07'
const CANCEL = '\x18'
const SUBSTITUTE = '\x1a'

export class LocalTerminalFilter {
  #state: 'plain' | 'escape' | 'sequence' | 'string' | 'string end' = 'plain'
  #held = ''
  #isTooLong = false

  filter(text: string): string {
    let out = ''
    for (let at = 0; at < text.length; ) {
      if (this.#state === 'string') {
        const end = indexOf(STRING_ENDS, text, at)
        this.#hold(text.slice(at, end), LINK_CHARS_MAX)
        at = end
        if (at === text.length) break
      }
      if (this.#state !== 'plain') {
        out += this.#next(text[at] ?? '')
        at += 1
        continue
      }
      const end = endOfCommon(text, at)
      out += text.slice(at, end)
      if (text[end] === ESC) this.#begin()
      at = end + 1
    }
    return out
  }

  #begin(): void {
    this.#state = 'escape'
    this.#held = ESC
    this.#isTooLong = false
  }

  /** Processes one more character of an escape sequence. Returns the text that may be shown now. */
  #next(sign: string): string {
    if (this.#state === 'string' || this.#state === 'string end') return this.#inString(sign)
    if (sign === ESC) {
      this.#begin()
      return ''
    }
    if (sign === CANCEL || sign === SUBSTITUTE) return this.#end(sign)
    // Terminals execute other control characters inside a sequence, and then continue the sequence.
    if (sign < ' ') return sign === '\x05' ? '' : sign
    if (sign >= '\x7f') return this.#end(sign >= '\x7f' && sign <= '\x9f' ? '' : sign)
    this.#hold(sign, SEQUENCE_CHARS_MAX)
    return this.#state === 'escape' ? this.#afterEscape(sign) : this.#inSequence(sign)
  }

  #afterEscape(sign: string): string {
    const isFirst = this.#held.length === 2
    if (isFirst && sign === '[') this.#state = 'sequence'
    else if (isFirst && ']PX^_k'.includes(sign)) this.#state = 'string'
    else if (sign >= '0')
      return this.#end(this.#isTooLong || REFUSED_ESCAPES.includes(this.#held) ? '' : this.#held)
    return ''
  }

  #inSequence(sign: string): string {
    if (sign < '@') return ''
    return this.#end(this.#isTooLong || !isDrawing(this.#held) ? '' : this.#held)
  }

  #inString(sign: string): string {
    if (this.#state === 'string end') return this.#afterStringEscape(sign)
    if (sign === '\x9c' || (sign === BEL && this.#held[1] === ']')) return this.#end(this.#link())
    if (sign === CANCEL || sign === SUBSTITUTE) return this.#end('')
    if (sign === ESC) this.#state = 'string end'
    else this.#hold(sign, LINK_CHARS_MAX)
    return ''
  }

  /** An escape ends a string: with a backslash as its terminator, otherwise as the start of another sequence. */
  #afterStringEscape(sign: string): string {
    if (sign === '\\') return this.#end(this.#link())
    this.#begin()
    return this.#next(sign)
  }

  #link(): string {
    if (!this.#isTooLong && LINK.test(this.#held)) return `${this.#held}${ESC}\\`
    // The text of a link that is refused must not belong to the one before.
    return this.#held.startsWith(LINK_BEGIN) ? `${LINK_BEGIN};${ESC}\\` : ''
  }

  #hold(sign: string, charsMax: number): void {
    const left = charsMax - this.#held.length
    if (sign.length > left) this.#isTooLong = true
    this.#held += sign.slice(0, left)
  }

  #end(shown: string): string {
    this.#state = 'plain'
    this.#held = ''
    return shown
  }
}

/** The index, from `from` on, of the first character that must be examined one by one. */
function endOfCommon(text: string, from: number): number {
  for (let at = from; ; at = COMMON_SEQUENCE.lastIndex) {
    SPECIAL.lastIndex = at
    const found = SPECIAL.exec(text)?.index ?? text.length
    COMMON_SEQUENCE.lastIndex = found
    if (!COMMON_SEQUENCE.test(text)) return found
  }
}

function indexOf(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from
  return pattern.exec(text)?.index ?? text.length
}

function isDrawing(sequence: string): boolean {
  if (KEYBOARD_MODE.test(sequence)) return false
  const { private: kind = '', sign = '', final = '' } = CSI.exec(sequence)?.groups ?? {}
  if (final === '') return false
  return sign === ''
    ? !(REFUSED_FINALS[kind] ?? '').includes(final)
    : DRAWING_WITH_INTERMEDIATE.has(`${sign}${final}`)
}
