/**
 * Between a session and the person's own terminal: everything that draws passes, byte by byte as it is.
 *
 * What does not pass is what would reach beyond the window: writing the clipboard or the title, sending notifications
 * or files, printing on paper, and every question to the terminal, whose answer would be typed into the session as if
 * the person had (and once for each view that looks). An agent chooses what it prints, and what it reads may choose
 * for it. A sequence that is cut between two pieces waits for its rest, so the terminal never sees half of one.
 */

/** Longer ones of these kinds are no use to anybody, and would have to be held until they end. */
const SEQUENCE_CHARS_MAX = 256
const LINK_CHARS_MAX = 4_096

/** Questions and orders, by what follows the bracket: `p` for the private sign, then the final letter. */
const REFUSED_FINALS: Readonly<Record<string, string>> = {
  '': 'cintx',
  '?': 'imnSu',
  '>': 'cqtT',
  '=': 'c',
  '<': '',
}
/** Of those with a sign before the letter most are questions; these draw, or set what is seen. */
const DRAWING_WITH_INTERMEDIATE = new Set([' q', ' @', ' A', '!p', '"q', "'}", "'~", '#{', '#}', '#p', '#q'])

// biome-ignore-start lint/suspicious/noControlCharactersInRegex: control characters are what this is about
/** Where plain text stops: an escape, an enquiry, or an 8-bit control, which some terminals still obey. */
const SPECIAL = /[\x05\x1b\x80-\x9f]/g
/** What most of a full screen is made of, told at one glance where it came whole. */
const COMMON_SEQUENCE = /\x1b\[(?:[\d;:]{0,200}[@-HJ-MPSTX`a-bd-hlmrsu]|\?[\d;]{0,200}[hl])/y
const CSI = /^\x1b\[(?<private>[<-?]?)[\x30-\x3f]*(?<sign>[\x20-\x2f]*)(?<final>[\x40-\x7e])$/
/** A link, which names an address and nothing else. */
const LINK = /^\x1b\]8;[^;]*;[\x20-\x7e]*$/
// biome-ignore-end lint/suspicious/noControlCharactersInRegex: as above

const ESC = '\x1b'
/** The oldest question of all, and the end of a string that has ended already. */
const REFUSED_ESCAPES = [`${ESC}Z`, `${ESC}\\`]
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

  /** One more sign of what an escape began; answers what may be shown now. */
  #next(sign: string): string {
    if (this.#state === 'string' || this.#state === 'string end') return this.#inString(sign)
    if (sign === ESC) {
      this.#begin()
      return ''
    }
    if (sign === CANCEL || sign === SUBSTITUTE) return this.#end(sign)
    // Terminals obey other controls in the midst of a sequence, and go on with it.
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

  /** An escape ends a string; with a backslash properly, and otherwise it begins something of its own. */
  #afterStringEscape(sign: string): string {
    if (sign === '\\') return this.#end(this.#link())
    this.#begin()
    return this.#next(sign)
  }

  #link(): string {
    return !this.#isTooLong && LINK.test(this.#held) ? `${this.#held}${ESC}\\` : ''
  }

  #hold(sign: string, charsMax: number): void {
    if (this.#held.length < charsMax) this.#held += sign
    else this.#isTooLong = true
  }

  #end(shown: string): string {
    this.#state = 'plain'
    this.#held = ''
    return shown
  }
}

/** Where something begins, from `from` on, that has to be looked at sign by sign. */
function endOfCommon(text: string, from: number): number {
  for (let at = from; ; at = COMMON_SEQUENCE.lastIndex) {
    SPECIAL.lastIndex = at
    const found = SPECIAL.exec(text)?.index ?? text.length
    COMMON_SEQUENCE.lastIndex = found
    if (!COMMON_SEQUENCE.test(text)) return found
  }
}

function isDrawing(sequence: string): boolean {
  const { private: kind = '', sign = '', final = '' } = CSI.exec(sequence)?.groups ?? {}
  if (final === '') return false
  return sign === ''
    ? !(REFUSED_FINALS[kind] ?? '').includes(final)
    : DRAWING_WITH_INTERMEDIATE.has(`${sign}${final}`)
}
