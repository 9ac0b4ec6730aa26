/**
 * Finds the blockers that an issue's text names, such as `Blocked by #12, #13` or `- [ ] Depends on ada/lamps#3`.
 *
 * Ticked entries no longer block. Code blocks, quotes and HTML comments (as in templates) are ignored.
 */
import type { IssueReference } from './issue.ts'

const BLOCKER_LINE =
  /^\s*(?:[-*+]\s+)?(?:\[([ xX])\]\s+)?[*_]{0,2}(?:blocked by|depends on|waits for)[*_]{0,2}\s*:?[*_]{0,2}\s*/i
const CODE_FENCE = /^\s{0,3}(?:```|~~~)/
const REFERENCE =
  /^(?:(?:https?:\/\/([^\s/]+)\/)?([A-Za-z0-9._-]{1,100}\/[A-Za-z0-9._-]{1,100})(?:#|\/issues\/)|#|GH-)(\d{1,15})\b/
const SEPARATOR = /^(?:\s*[,;&]\s*(?:and\s+)?|\s+(?:and\s+)?)/
/** A longer line is not a list of blockers. */
const LINE_CHARS_MAX = 1_000
const REFERENCES_MAX = 256

/** `host`: host name of this GitHub's web pages; links to other hosts are ignored. */
export function parseBlockers(body: string, remote: string, host: string): readonly IssueReference[] {
  const found: IssueReference[] = []
  let isCode = false
  for (const line of removeComments(body).split('\n')) {
    if (CODE_FENCE.test(line)) isCode = !isCode
    else if (!isCode && found.length < REFERENCES_MAX) found.push(...parseReferences(line, remote, host))
  }
  return found.slice(0, REFERENCES_MAX)
}

function parseReferences(line: string, remote: string, host: string): IssueReference[] {
  if (line.length > LINE_CHARS_MAX) return []
  const start = BLOCKER_LINE.exec(line)
  if (start === null || start[1]?.toLowerCase() === 'x') return []
  const found: IssueReference[] = []
  let rest = line.slice(start[0].length)
  for (let match = REFERENCE.exec(rest); match !== null; match = REFERENCE.exec(rest)) {
    const [whole, site, repository = remote, digits] = match
    if (site === undefined || site.toLowerCase() === host) {
      found.push({ remote: repository, number: Number(digits) })
    }
    rest = rest.slice(whole.length).replace(SEPARATOR, '')
  }
  return found
}

/** An unterminated comment hides the rest, as on GitHub's page. */
function removeComments(text: string): string {
  const parts: string[] = []
  let at = 0
  for (let start = text.indexOf('<!--'); start >= 0; start = text.indexOf('<!--', at)) {
    parts.push(text.slice(at, start))
    const end = text.indexOf('-->', start + 4)
    if (end < 0) return parts.join('')
    at = end + 3
  }
  return parts.join('') + text.slice(at)
}
