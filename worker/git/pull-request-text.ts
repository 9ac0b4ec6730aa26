/**
 * The title and body of a pull request, built from the ticket and the agent's last message.
 *
 * The message is untrusted: it can neither hide the text after it nor imitate the marker at the end, by which the
 * service recognises its own pull requests.
 */
import { runMarker } from '../../core/run/run-marker.ts'
import { toSingleLine, truncate } from '../../core/safe-text.ts'
import type { Ticket } from '../../protocol/run.ts'

const TITLE_CHARS_MAX = 240
/** Code hosts accept about 65,000 characters. */
const SUMMARY_CHARS_MAX = 40_000

type PullSubject = Pick<Ticket, 'identifier' | 'title' | 'url'>

export function pullTitle({ identifier, title }: PullSubject): string {
  return truncate(toSingleLine(`${identifier}: ${title}`), TITLE_CHARS_MAX)
}

/** @param closesIssue the number of the ticket's issue, which the code host closes when the pull request is merged */
export function pullBody(
  ticket: PullSubject,
  summary: string,
  run: { readonly runId: string; readonly leaseId: string },
  closesIssue?: number,
): string {
  const text = truncate(neutralizeMarkup(summary).trim(), SUMMARY_CHARS_MAX)
  const subject = closesIssue === undefined ? `Ticket: ${ticketLink(ticket)}` : `Closes #${closesIssue}`
  return [...(text === '' ? [] : [text]), subject, runMarker(run)].join('\n\n')
}

/** Links only http(s) addresses; other addresses, such as files on the host, are useless to readers. */
function ticketLink({ identifier, url }: PullSubject): string {
  const name = toSingleLine(identifier).replace(/[\\[\]<>`*_]/g, '\\$&')
  return /^https?:\/\/[^\s()<>]+$/.test(url) ? `[${name}](${url})` : name
}

export function neutralizeMarkup(text: string): string {
  return text.replaceAll('<!--', '&lt;!--').replace(/[^\P{Cc}\n\t]/gu, '')
}
