/**
 * What an issue's text says it waits for: lines such as `Blocked by #12, #13` or `- [ ] Depends on ada/lamps#3`.
 *
 * A ticked entry waits no longer. What is code, quoted or hidden in a comment (as in a template) says nothing.
 */
import type { IssueReference } from './github-issue.ts'

const BLOCKER_LINE =
  /^\s*(?:[-*+]\s+)?(?:\[([ xX])\]\s+)?[*_]{0,2}(?:blocked by|depends on|waits for)[*_]{0,2}\s*:?[*_]{0,2}\s*/i
const CODE_FENCE = /^\s{0,3}(?:```|~~~)/
const REFERENCE =
  /^(?:(?:https?:\/\/([^\s/]+)\/)?([A-Za-z0-9._-]{1,100}\/[A-Za-z0-9._-]{1,100})(?:#|\/issues\/)|#|GH-)(\d{1,15})\b/
const SEPARATOR = /^(?:\s*[,;&]\s*(?:and\s+)?|\s+(?:and\s+)?)/
/** A line that is longer is no list. */
const LINE_CHARS_MAX = 1_000
const REFERENCES_MAX = 256

/** `host`: of the pages of this GitHub; an address elsewhere is somebody else's issue. */
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

/** One that is not ended hides the rest, as it does on the page. */
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
