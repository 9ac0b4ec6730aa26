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

const BREAK = '\u200b'
const CLOSING_WORD =
  /\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)(:[ \t]*|[ \t]+)(?=[\w.-]*\/?[\w.-]*#\d|https?:\/\/|GH-\d)/gi

const MENTION = /(?<![a-z0-9])@(?=[\w-])/gi

function neutralizeLine(line: string): string {
  return line
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
const OPENING_FENCE = /^(`{3,})[^`]*$|^(~{3,}).*$/

function splitAtCodeBlocks(text: string): readonly TextBlock[] {
  const blocks: TextBlock[] = [{ isCode: false, lines: [] }]
  let fence: string | undefined
  for (const line of text.split('\n')) {
    if (fence !== undefined) {
      blocks.at(-1)?.lines.push(line)
      if (!isClosingFence(line, fence)) continue
      fence = undefined
      blocks.push({ isCode: false, lines: [] })
      continue
    }
    const [, ticks, tildes] = OPENING_FENCE.exec(line) ?? []
    fence = ticks ?? tildes
    if (fence !== undefined) blocks.push({ isCode: true, lines: [] })
    blocks.at(-1)?.lines.push(line)
  }
  return blocks.filter(({ lines }) => lines.length > 0)
}

function isClosingFence(line: string, fence: string): boolean {
  const marks = line.replace(/^ {0,3}/, '').trimEnd()
  return marks.length >= fence.length && marks === fence.charAt(0).repeat(marks.length)
}
