/** Takes the effects out of what agents write for code hosts, which act on some words and marks. */
import { isUtf8 } from 'node:buffer'

/**
 * Takes the effects out of an agent's Markdown: it notifies nobody, closes no issue, orders nothing, loads no image and
 * hides nothing.
 *
 * An invisible character breaks each pattern, so the text looks the same and can still be copied from code blocks,
 * which code hosts show as they are. Only blocks that no other markup can end are taken for code.
 */
export function neutralizeMarkup(text: string): string {
  const plain = stripHidden(text).replace(/\r\n?/g, '\n').replaceAll('<!--', '&lt;!--')
  return splitAtCodeBlocks(plain)
    .map(({ isCode, lines }) => (isCode ? lines.join('\n') : neutralizeBlock(lines.join('\n'))))
    .join('\n')
}

/** Ends a block of code that the text leaves open, or that was truncated: what follows would be part of it. */
export function closeCode(text: string): string {
  const last = splitAtCodeBlocks(text).at(-1)
  if (last?.isCode !== true) return text
  const [opening = '', ...lines] = last.lines
  const fence = /^(`+|~+)/.exec(opening)?.[0] ?? ''
  const isClosed = lines.some((line) => isClosingFence(line, fence))
  return isClosed ? text : `${text}\n${fence}`
}

const BREAK = '\u200b'

/** Line ends and tabs are no effect, and Arabic number signs have a shape; the rest can hide words from readers. */
const HIDDEN =
  /(?![\n\t\r\u0600-\u0605\u06dd\u070f\u08e2])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu
const JOINERS = '\u200c\u200d'
const COLOURED = '\ufe0f'

/** Removes characters without a shape, except where emoji and some scripts need them. */
function stripHidden(text: string): string {
  return text.replace(HIDDEN, (char, at: number) => {
    const [before = '', after = ''] = [text[at - 1], text[at + 1]]
    if (char === COLOURED) return (before > '\u00a0' && before !== char) || after === '\u20e3' ? char : ''
    if (!JOINERS.includes(char)) return ''
    const joinsShapes = [before, after].every((side) => side > '\u00a0' && !JOINERS.includes(side))
    return joinsShapes ? char : ''
  })
}

/** A line end separates like a space. Owners and repositories have short names; no limit would cost quadratic time. */
const CLOSING_WORD =
  /\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)([*_~]{0,3}(?::[\s>]*|[\s>]+))(?=[*_~[("'\\]{0,8}(?:[\w.-]{0,100}\/?[\w.-]{0,100}\\?#\d|https?:\/\/|GH-\d))/gi

/** Words by which services skip the checks of a commit or of a pull request's title. */
const SKIP_WORDS =
  /(\[)(?=\s*(?:skip[ _-][\w-]+|[\w-]+[ _-]skip|no[ _-]ci)\s*\])|(\bskip-checks)(?=:\s*true)|(\*{3}NO)(?=_CI\*)/gi

/** Bots have brackets in their addresses, which trailers such as `Co-authored-by` name. */
const MENTION = /(?<![a-z0-9])(?<!\[bot\](?=@users\.noreply\.github\.com>))@(?=[\w-])/gi

/** Code hosts and their bots obey lines such as `/merge`. */
const COMMAND = /^([ \t]*)\/(?=[a-z][\w-]*(?:\s|$))/gim

/** Code hosts look for effects after they have replaced these by the characters that they stand for. */
const DECODED = /&(?=#x?[0-9a-f]+;|(?:commat|num|sol|colon|period|lowbar|nbsp|tab|newline);)/gi

/** Code hosts show nothing of the definition of a link or footnote. A label may have begun on an earlier line. */
const DEFINITION = /^(?:[ \t>*+\-\d.)]*\[|[^[\n]*\]:).*$/gm

function neutralizeBlock(text: string): string {
  return neutralizeWords(text.replace(DECODED, `&${BREAK}`))
    .replace(MENTION, `@${BREAK}`)
    .replace(COMMAND, '$1\\/')
    .replace(DEFINITION, (line) => line.replaceAll(']:', `]${BREAK}:`))
    .replaceAll('![', `!${BREAK}[`)
    .replace(/<(?=[a-z/!?])/gi, `<${BREAK}`)
}

/** Breaks the words that act wherever they stand: in commits, descriptions and titles. */
export function neutralizeWords(text: string): string {
  return text.replace(CLOSING_WORD, `$1$2${BREAK}`).replace(SKIP_WORDS, `$1$2$3${BREAK}`)
}

/** Takes the effects out of a commit's message, which code hosts read as plain text: it has no markup and no code. */
export function neutralizeMessage(message: Buffer): Buffer {
  const text = textOf(message)
  const neutral = neutralizeWords(stripHidden(text)).replace(MENTION, `@${BREAK}`).replace(COMMAND, '$1 /')
  return neutral === text ? message : bytesOf(neutral)
}

/** Bytes that are no UTF-8 stand in the text as lone surrogates of this block, so that none of them is lost. */
const ODD_BYTES = 0xdc00

function textOf(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString()
  return bytes
    .toString('latin1')
    .replace(
      /[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}|[\x80-\xff]/g,
      (high) => {
        const character = Buffer.from(high, 'latin1')
        if (isUtf8(character)) return character.toString()
        return [...character].map((byte) => String.fromCharCode(ODD_BYTES + byte)).join('')
      },
    )
}

function bytesOf(text: string): Buffer {
  const parts = text.split(/([\udc80-\udcff])/u)
  return Buffer.concat(
    parts.map((part, at) => (at % 2 === 0 ? Buffer.from(part) : Buffer.of(part.charCodeAt(0) - ODD_BYTES))),
  )
}

interface TextBlock {
  readonly isCode: boolean
  readonly lines: string[]
}

/** A fence at the very beginning of a line opens a block of code wherever it stands. */
const OPENING_FENCE = /^(?:(`{3,})[^`]*$|(~{3,}))/
/** An indented one opens a block in a list or outside: only the whole text before it tells where that ends. */
const INDENTED_FENCE = /^( {1,3})(?:(`{3,})[^`]*$|(~{3,}))/

function splitAtCodeBlocks(text: string): readonly TextBlock[] {
  const blocks: TextBlock[] = [{ isCode: false, lines: [] }]
  const unclear = new IndentedBlock()
  let fence: string | undefined
  for (const line of text.split('\n')) {
    if (fence !== undefined) {
      blocks.at(-1)?.lines.push(line)
      if (!isClosingFence(line, fence)) continue
      fence = undefined
      blocks.push({ isCode: false, lines: [] })
      continue
    }
    const [, ticks, tildes] = unclear.holds(line) ? [] : (OPENING_FENCE.exec(line) ?? [])
    fence = ticks ?? tildes
    if (fence !== undefined) blocks.push({ isCode: true, lines: [] })
    blocks.at(-1)?.lines.push(line)
  }
  return blocks.filter(({ lines }) => lines.length > 0)
}

/** Text whose lines may be code or not. It ends where both readings agree again, or else with the text. */
class IndentedBlock {
  #open: { readonly indent: string; readonly fence: string } | undefined

  holds(line: string): boolean {
    const open = this.#open
    if (open === undefined) {
      const [, indent = '', ticks, tildes] = INDENTED_FENCE.exec(line) ?? []
      const fence = ticks ?? tildes
      if (fence !== undefined) this.#open = { indent, fence }
      return fence !== undefined
    }
    // A line with less indentation may end a list, and with it the block.
    if (!line.startsWith(open.indent) && line !== '') this.#open = { indent: NO_LINE, fence: NO_LINE }
    else if (isClosingFence(line, open.fence)) this.#open = undefined
    return true
  }
}

/** No line begins with it, since it would be two lines. */
const NO_LINE = '\n'

/** Only spaces and tabs may follow a fence that closes. */
function isClosingFence(line: string, fence: string): boolean {
  const marks = /^ {0,3}(`+|~+)[ \t]*$/.exec(line)?.[1] ?? ''
  return marks.length >= fence.length && marks.startsWith(fence)
}
