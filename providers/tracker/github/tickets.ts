/** Converts the issues of all repositories into tickets, with their blockers. */
import type { TrackedTicket } from '../../../core/ports/tracker.ts'
import { normalizeName } from '../../../core/tickets/names.ts'
import { chooseRepo } from '../../../core/tickets/repo.ts'
import type { RepoMapping, ServiceConfig } from '../../../protocol/config.ts'
import type { TicketEdit } from '../../../protocol/run.ts'
import { formatTicketId, type GithubIssue, type IssueReference, toTrackedTicket } from './issue.ts'

export interface TicketListOptions {
  /** Keyed by normalized repository name. */
  readonly repositories: ReadonlyMap<string, TicketRepository>
  readonly stateNames: readonly string[]
  readonly assignees: readonly string[]
  /** Host name of this GitHub's web pages. */
  readonly host: string
  /** Blockers that GitHub itself has recorded. */
  readonly blockersOf: (issue: GithubIssue) => readonly IssueReference[]
  /** The edit after its label; `unknown` leaves the issue out. */
  readonly editOf: (issue: GithubIssue) => TicketEdit | 'unknown' | undefined
}

export function toTickets(issues: readonly GithubIssue[], options: TicketListOptions): TrackedTicket[] {
  return issues.flatMap((issue) => {
    const edited = options.editOf(issue)
    if (edited === 'unknown') return []
    const repository = options.repositories.get(normalizeName(issue.remote))
    const tracked = toTrackedTicket(issue, {
      stateNames: options.stateNames,
      assignees: options.assignees,
      identifier: `${repository?.name ?? issue.remote}#${issue.number}`,
      blockedBy: listBlockerIds(issue, options),
    })
    const repo = repository === undefined ? undefined : pickRepoKey(tracked, repository)
    if (repo === undefined && edited === undefined) return [tracked]
    const more = { ...(repo === undefined ? {} : { repo }), ...(edited === undefined ? {} : { edited }) }
    return [{ ...tracked, ticket: { ...tracked.ticket, ...more } }]
  })
}

/** Uses the ids of the tickets, however the text spells the repository. */
function listBlockerIds(issue: GithubIssue, { repositories, host, blockersOf }: TicketListOptions): string[] {
  const places = [...blockersOf(issue), ...readBlockersInText(issue, host)]
  const ids = places.flatMap(({ remote, number }) => {
    const repository = repositories.get(normalizeName(remote))
    return repository === undefined ? [] : [formatTicketId({ remote: repository.remote, number })]
  })
  return [...new Set(ids)]
}

/** Caches the parsed text per issue object, because thousands of long texts are converted on each poll. */
const blockersInTexts = new WeakMap<GithubIssue, readonly IssueReference[]>()

function readBlockersInText(issue: GithubIssue, host: string): readonly IssueReference[] {
  const places = blockersInTexts.get(issue) ?? parseBlockers(issue.body, issue.remote, host)
  blockersInTexts.set(issue, places)
  return places
}

// ---- blockers in a text --------------------------------------------------------------------------------------------

const BLOCKER_LINE =
  /^\s*(?:[-*+]\s+)?(?:\[([ xX])\]\s+)?[*_]{0,2}(?:blocked by|depends on|waits for)[*_]{0,2}\s*:?[*_]{0,2}\s*/i
const CODE_FENCE = /^\s{0,3}(?:```|~~~)/
const REFERENCE =
  /^(?:(?:https?:\/\/([^\s/]+)\/)?([A-Za-z0-9._-]{1,100}\/[A-Za-z0-9._-]{1,100})(?:#|\/issues\/)|#|GH-)(\d{1,15})\b/
const SEPARATOR = /^(?:\s*[,;&]\s*(?:and\s+)?|\s+(?:and\s+)?)/
/** A longer line is not a list of blockers. */
const LINE_CHARS_MAX = 1_000
const REFERENCES_MAX = 256

/**
 * Finds the blockers that an issue's text names, such as `Blocked by #12, #13` or `- [ ] Depends on ada/lamps#3`.
 * Ticked entries no longer block. Code blocks, quotes and HTML comments (as in templates) are ignored.
 *
 * @param host the host name of this GitHub's web pages; links to other hosts are ignored
 */
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

// ---- repositories --------------------------------------------------------------------------------------------------

/** A repository with all its mappings. */
export interface TicketRepository {
  readonly remote: string
  /** Display name, without the owner where that is unambiguous. */
  readonly name: string
  readonly mappings: ServiceConfig['repos']
}

/**
 * Lists the configured repositories whose issues are tickets, by normalized name: each once, even with several
 * mappings.
 */
export function listTicketRepositories({ repos }: ServiceConfig): ReadonlyMap<string, TicketRepository> {
  const repositories = new Map<string, { remote: string; mappings: Record<string, RepoMapping> }>()
  for (const [key, mapping] of Object.entries(repos)) {
    const repository = repositories.get(normalizeName(mapping.remote)) ?? {
      remote: mapping.remote,
      mappings: {},
    }
    repository.mappings[key] = mapping
    repositories.set(normalizeName(mapping.remote), repository)
  }
  const names = [...repositories.keys()].map(baseName)
  return new Map(
    [...repositories].map(([key, home]) => {
      const isUnique = names.filter((name) => name === baseName(key)).length === 1
      return [key, { ...home, name: isUnique ? baseName(home.remote) : home.remote }]
    }),
  )
}

const baseName = (remote: string): string => remote.slice(remote.indexOf('/') + 1)

/** Chooses the mapping of an issue among those of its repository. */
function pickRepoKey({ ticket }: TrackedTicket, { mappings }: TicketRepository): string | undefined {
  const [only, ...others] = Object.keys(mappings)
  if (others.length === 0) return only
  const choice = chooseRepo(ticket, mappings)
  return choice.ok ? choice.value.key : undefined
}
