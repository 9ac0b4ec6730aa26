/** Converts the issues of all repositories into tickets, with their blockers. */
import type { TrackedTicket } from '../../../core/ports.ts'
import { normalizeName } from '../../../core/tickets/names.ts'
import type { TicketEdit } from '../../../protocol/run.ts'
import { parseBlockers } from './blockers.ts'
import { formatTicketId, type GithubIssue, type IssueReference, toTrackedTicket } from './issue.ts'
import { pickRepoKey, type TicketRepository } from './repositories.ts'

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
