/**
 * The title and body of a pull request, built from the ticket and the agent's last message.
 *
 * The message is untrusted: it can neither hide the text after it nor imitate the marker at the end, by which the
 * service recognises its own pull requests.
 */
import { runMarker } from '../../core/run/run-marker.ts'
import { toSingleLine, truncate } from '../../core/safe-text.ts'
import type { Ticket } from '../../protocol/run.ts'
import type { HeldBackChanges } from './git-ports.ts'

const TITLE_CHARS_MAX = 240
/** Code hosts accept about 65,000 characters. */
const SUMMARY_CHARS_MAX = 40_000

type PullSubject = Pick<Ticket, 'identifier' | 'title' | 'url'>

export function pullTitle({ identifier, title }: PullSubject): string {
  return truncate(toSingleLine(`${identifier}: ${title}`), TITLE_CHARS_MAX)
}

export interface PullBodyOptions {
  /** The number of the ticket's issue, which the code host closes when the pull request is merged. */
  readonly closesIssue?: number | undefined
  readonly heldBack?: HeldBackChanges | undefined
}

/** The name of the run's artifact with the changes that were not pushed. */
export const HELD_BACK_ARTIFACT = 'held-back-ci-changes.patch'

/** The sentence for the run's log. */
export const describeHeldBack = ({ paths }: HeldBackChanges): string =>
  `held back, because CI definitions run with the repository's secrets: ${paths.join(', ')}; see the artifact ${HELD_BACK_ARTIFACT}, or set allowWorkflows for the repository`

/** Stands before everything else in a pull request or comment. */
export function heldBackNotice({ paths }: HeldBackChanges): string {
  const names = paths.map((path) => `\`${path.replaceAll('`', "'")}\``).join(', ')
  return `**Held back:** changes of CI definitions (${names}) are not part of this branch, because they would run with the repository’s secrets before anybody has read them. They are in the run’s artifact \`${HELD_BACK_ARTIFACT}\`; \`allowWorkflows\` of the repository’s settings lets them through.`
}

export function pullBody(
  ticket: PullSubject,
  summary: string,
  run: { readonly runId: string; readonly leaseId: string },
  { closesIssue, heldBack }: PullBodyOptions = {},
): string {
  const text = truncate(neutralizeMarkup(summary).trim(), SUMMARY_CHARS_MAX)
  const subject = closesIssue === undefined ? `Ticket: ${ticketLink(ticket)}` : `Closes #${closesIssue}`
  const notices = heldBack === undefined ? [] : [heldBackNotice(heldBack)]
  return [...notices, ...(text === '' ? [] : [text]), subject, runMarker(run)].join('\n\n')
}

/** Links only http(s) addresses; other addresses, such as files on the host, are useless to readers. */
function ticketLink({ identifier, url }: PullSubject): string {
  const name = toSingleLine(identifier).replace(/[\\[\]<>`*_]/g, '\\$&')
  return /^https?:\/\/[^\s()<>]+$/.test(url) ? `[${name}](${url})` : name
}

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
  /\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)(:?[ \t]+)(?=[\w.-]*\/?[\w.-]*#\d|https?:\/\/|GH-\d)/gi

function neutralizeLine(line: string): string {
  return line
    .replace(/(?<![a-z0-9])@(?=[\w-])/gi, `@${BREAK}`)
    .replaceAll('![', `!${BREAK}[`)
    .replace(/<(?=[a-z/!?])/gi, `<${BREAK}`)
    .replace(CLOSING_WORD, `$1$2${BREAK}`)
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
