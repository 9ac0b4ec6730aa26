/** The issues of all repositories as tickets, and how they are connected with one another. */
import type { TrackedTicket } from '../../core/ports.ts'
import { normalizeName } from '../../core/tickets/names.ts'
import { parseBlockers } from './github-blockers.ts'
import { formatTicketId, type GithubIssue, type IssueReference, toTrackedTicket } from './github-issue.ts'
import { pickRepoKey, type TicketRepository } from './github-repositories.ts'

export interface TicketListOptions {
  /** By the names of their repositories in small letters. */
  readonly repositories: ReadonlyMap<string, TicketRepository>
  readonly stateNames: readonly string[]
  readonly assignees: readonly string[]
  /** Of the pages of this GitHub. */
  readonly host: string
  /** As GitHub knows. */
  readonly blockersOf: (issue: GithubIssue) => readonly IssueReference[]
}

export function toTickets(issues: readonly GithubIssue[], options: TicketListOptions): TrackedTicket[] {
  return issues.map((issue) => {
    const repository = options.repositories.get(normalizeName(issue.remote))
    const tracked = toTrackedTicket(issue, {
      stateNames: options.stateNames,
      assignees: options.assignees,
      identifier: `${repository?.name ?? issue.remote}#${issue.number}`,
      blockedBy: listBlockerIds(issue, options),
    })
    const repo = repository === undefined ? undefined : pickRepoKey(tracked, repository)
    return repo === undefined ? tracked : { ...tracked, ticket: { ...tracked.ticket, repo } }
  })
}

/** By the ids that the tickets have here, however their repository is spelled there. */
function listBlockerIds(issue: GithubIssue, { repositories, host, blockersOf }: TicketListOptions): string[] {
  const places = [...blockersOf(issue), ...readBlockersInText(issue, host)]
  const ids = places.flatMap(({ remote, number }) => {
    const repository = repositories.get(normalizeName(remote))
    return repository === undefined ? [] : [formatTicketId({ remote: repository.remote, number })]
  })
  return [...new Set(ids)]
}

/** Read once for each issue as it is: there may be thousands, with long texts, and they are looked at all the time. */
const blockersInTexts = new WeakMap<GithubIssue, readonly IssueReference[]>()

function readBlockersInText(issue: GithubIssue, host: string): readonly IssueReference[] {
  const places = blockersInTexts.get(issue) ?? parseBlockers(issue.body, issue.remote, host)
  blockersInTexts.set(issue, places)
  return places
}
