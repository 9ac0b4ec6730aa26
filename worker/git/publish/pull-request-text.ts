/**
 * The title and body of a pull request, built from the ticket and the agent's last message.
 *
 * The message is untrusted: it can neither hide the text after it nor imitate the marker at the end, by which the
 * service recognises its own pull requests.
 */
import { runMarker } from '../../../core/run/run-pull.ts'
import { toSingleLine, truncate } from '../../../core/safe-text.ts'
import type { FoundKey } from '../../../protocol/found-key.ts'
import { FOUND_KEYS_MAX } from '../../../protocol/limits.ts'
import type { Ticket } from '../../../protocol/run.ts'
import type { HeldBackChanges } from '../git-ports.ts'
import { closeCode, neutralizeMarkup, neutralizeWords } from '../work/neutral-markup.ts'

const TITLE_CHARS_MAX = 240
/** Code hosts accept about 65,000 characters. */
const SUMMARY_CHARS_MAX = 40_000

type PullSubject = Pick<Ticket, 'identifier' | 'title' | 'url'>

export function pullTitle({ identifier, title }: PullSubject): string {
  return truncate(neutralizeWords(toSingleLine(`${identifier}: ${title}`)), TITLE_CHARS_MAX)
}

export interface PullBodyOptions {
  /** The number of the ticket's issue, which the code host closes when the pull request is merged. */
  readonly closesIssue?: number | undefined
  readonly heldBack?: HeldBackChanges | undefined
  readonly readFirst?: readonly string[] | undefined
  /** The places of the commits that look like keys; a person has said that they are published. */
  readonly keys?: readonly FoundKey[] | undefined
}

/** The name of the run's artifact with the changes that were not pushed. */
export const HELD_BACK_ARTIFACT = 'held-back-ci-changes.patch'

/** The sentence for the run's log. */
export const describeHeldBack = ({ paths }: HeldBackChanges): string =>
  `held back, because CI definitions run with the repository's secrets: ${paths.join(', ')}; see the artifact ${HELD_BACK_ARTIFACT}, or set allowWorkflows for the repository`

const namesOf = (paths: readonly string[]): string =>
  paths.map((path) => `\`${path.replaceAll('`', "'")}\``).join(', ')

/** Stands before everything else in a pull request or comment. */
export function noticesOf({ heldBack, readFirst = [], keys = [] }: PullBodyOptions): readonly string[] {
  const notices = [
    ...(keys.length === 0 ? [] : [keysNotice(keys)]),
    ...(heldBack === undefined ? [] : [heldBackNotice(heldBack)]),
  ]
  if (readFirst.length === 0) return notices
  const first = `**Look here first:** ${namesOf(readFirst)} – such files run in CI or on the machine of whoever opens the branch, or decide who reviews it.`
  return [...notices, first]
}

function keysNotice(keys: readonly FoundKey[]): string {
  const places = keys.slice(0, FOUND_KEYS_MAX).map(({ kind, file, line }) => {
    const place = line === undefined ? '' : ` line ${line}`
    return `${namesOf([file])}${place} (${kind})`
  })
  return `**Look here first:** ${places.join(', ')} – a person decided to publish what looks like keys.`
}

function heldBackNotice({ paths }: HeldBackChanges): string {
  return `**Held back:** changes of CI definitions (${namesOf(paths)}) are not part of this branch, because they would run with the repository’s secrets before anybody has read them. They are in the run’s artifact \`${HELD_BACK_ARTIFACT}\`; \`allowWorkflows\` of the repository’s settings lets them through.`
}

export function pullBody(
  ticket: PullSubject,
  summary: string,
  run: { readonly runId: string; readonly leaseId: string },
  options: PullBodyOptions = {},
): string {
  const { closesIssue } = options
  const text = closeCode(truncate(neutralizeMarkup(summary).trim(), SUMMARY_CHARS_MAX))
  const subject = closesIssue === undefined ? `Ticket: ${ticketLink(ticket)}` : `Closes #${closesIssue}`
  return [...noticesOf(options), ...(text === '' ? [] : [text]), subject, runMarker(run)].join('\n\n')
}

/** Links only http(s) addresses; other addresses, such as files on the host, are useless to readers. */
function ticketLink({ identifier, url }: PullSubject): string {
  const name = toSingleLine(identifier).replace(/[\\[\]<>`*_]/g, '\\$&')
  return /^https?:\/\/[^\s()<>]+$/.test(url) ? `[${name}](${url})` : name
}
