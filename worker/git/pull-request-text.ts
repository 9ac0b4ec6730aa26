/**
 * What a pull request says: its title and its body, made of the ticket and of the agent's last words.
 *
 * Those words are a stranger's: they may not hide what follows them, nor pass for the marker at the end, by which the
 * service knows its own pull requests.
 */
import { toSingleLine, truncate } from '../../core/safe-text.ts'
import type { Ticket } from '../../protocol/run.ts'

const TITLE_CHARS_MAX = 240
/** Code hosts take some 65,000 characters. */
const SUMMARY_CHARS_MAX = 40_000

type PullSubject = Pick<Ticket, 'identifier' | 'title' | 'url'>

export function pullTitle({ identifier, title }: PullSubject): string {
  return truncate(toSingleLine(`${identifier}: ${title}`), TITLE_CHARS_MAX)
}

export function pullBody(
  ticket: PullSubject,
  summary: string,
  run: { readonly runId: string; readonly leaseId: string },
): string {
  const text = truncate(neutralizeMarkup(summary).trim(), SUMMARY_CHARS_MAX)
  return [...(text === '' ? [] : [text]), `Ticket: ${ticketLink(ticket)}`, runMarker(run)].join('\n\n')
}

export function runMarker({ runId, leaseId }: { readonly runId: string; readonly leaseId: string }): string {
  return `<!-- switchyard run=${runId} lease=${leaseId} -->`
}

/** Only what a browser opens as a page; a file on the host is nobody else's. */
function ticketLink({ identifier, url }: PullSubject): string {
  const name = toSingleLine(identifier).replace(/[\\[\]<>`*_]/g, '\\$&')
  return /^https?:\/\/[^\s()<>]+$/.test(url) ? `[${name}](${url})` : name
}

export function neutralizeMarkup(text: string): string {
  return text.replaceAll('<!--', '&lt;!--').replace(/[^\P{Cc}\n\t]/gu, '')
}
