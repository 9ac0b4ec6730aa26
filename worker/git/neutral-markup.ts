/** Takes the effects out of what agents write for code hosts, which act on some words and marks. */

/**
 * Takes the effects out of an agent's Markdown: it notifies nobody, closes no issue, loads no image and hides nothing.
 *
 * An invisible character breaks each pattern, so the text looks the same and can still be copied from code blocks,
 * which code hosts show as they are. Only blocks that no other markup can end are taken for code.
 */
export function neutralizeMarkup(text: string): string {
  const plain = text.replaceAll('<!--', '&lt;!--').replace(/[^\P{Cc}\n\t]/gu, '')
  return splitAtCodeBlocks(plain)
    .map(({ isCode, lines }) => (isCode ? lines : lines.map(neutralizeLine)).join('\n'))
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
/** Owners and repositories have short names, and an unlimited one would take quadratic time. */
const CLOSING_WORD =
  /\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)(:[ \t]*|[ \t]+)(?=[*_~[("'\\]{0,8}(?:[\w.-]{0,100}\/?[\w.-]{0,100}\\?#\d|https?:\/\/|GH-\d))/gi

/** Bots have brackets in their addresses, which trailers such as `Co-authored-by` name. */
const MENTION = /(?<![a-z0-9])(?<!\[bot\](?=@users\.noreply\.github\.com>))@(?=[\w-])/gi

/** Code hosts look for effects after they have replaced these by the characters that they stand for. */
const DECODED = /&(?=#x?[0-9a-f]+;|(?:commat|num|sol|colon|period|lowbar|nbsp|tab|newline);)/gi

function neutralizeLine(line: string): string {
  return line
    .replace(DECODED, `&${BREAK}`)
    .replace(MENTION, `@${BREAK}`)
    .replaceAll('![', `!${BREAK}[`)
    .replace(/<(?=[a-z/!?])/gi, `<${BREAK}`)
    .replace(CLOSING_WORD, `$1$2${BREAK}`)
}

/** The bytes of BREAK, for text of any encoding that is read byte by byte. */
const BREAK_BYTES = Buffer.from(BREAK).toString('latin1')

/**
 * The bytes of control characters, and in UTF-8 those of characters that change the writing direction: terminals show
 * messages, too. Carriage returns stay, because messages of Windows have them.
 */
const CONTROLS = new RegExp(
  [
    '[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]',
    '\\xc2[\\x80-\\x9f]',
    '\\xd8\\x9c',
    '\\xe2\\x80[\\x8e\\x8f\\xa8-\\xae]',
    '\\xe2\\x81[\\xa6-\\xaf]',
  ].join('|'),
  'g',
)

/** Takes the effects out of a commit's message, which code hosts read as plain text: it has no markup and no code. */
export function neutralizeMessage(message: Buffer): Buffer {
  const text = message.toString('latin1')
  const neutral = text
    .replace(CONTROLS, '')
    .replace(MENTION, `@${BREAK_BYTES}`)
    .replace(CLOSING_WORD, `$1$2${BREAK_BYTES}`)
  return neutral === text ? message : Buffer.from(neutral, 'latin1')
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
  const marks = line.replace(/^ {0,3}/, '').replace(/[ \t]+$/, '')
  return marks.length >= fence.length && marks === fence.charAt(0).repeat(marks.length)
}
