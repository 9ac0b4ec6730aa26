/** The issues of all repositories as tickets, and how they are connected with one another. */
import type { TrackedTicket } from '../../core/ports.ts'
import { normalizeName } from '../../core/tickets/names.ts'
import { blockersIn } from './github-blockers.ts'
import { type Issue, type IssuePlace, ticketIdOf, trackedOf } from './github-issue.ts'
import { type Home, keyOf } from './github-repositories.ts'

export interface TicketsSetting {
  /** By the names of their repositories in small letters. */
  readonly homes: ReadonlyMap<string, Home>
  readonly stateNames: readonly string[]
  readonly assignees: readonly string[]
  /** Of the pages of this GitHub. */
  readonly host: string
  /** As GitHub knows. */
  readonly waitsFor: (issue: Issue) => readonly IssuePlace[]
}

export function ticketsOf(issues: readonly Issue[], setting: TicketsSetting): TrackedTicket[] {
  return issues.map((issue) => {
    const home = setting.homes.get(normalizeName(issue.remote))
    const tracked = trackedOf(issue, {
      stateNames: setting.stateNames,
      assignees: setting.assignees,
      identifier: `${home?.name ?? issue.remote}#${issue.number}`,
      blockedBy: blockersOf(issue, setting),
    })
    const repo = home === undefined ? undefined : keyOf(tracked, home)
    return repo === undefined ? tracked : { ...tracked, ticket: { ...tracked.ticket, repo } }
  })
}

/** By the ids that the tickets have here, however their repository is spelled there. */
function blockersOf(issue: Issue, { homes, host, waitsFor }: TicketsSetting): string[] {
  const places = [...waitsFor(issue), ...saidBy(issue, host)]
  const ids = places.flatMap(({ remote, number }) => {
    const home = homes.get(normalizeName(remote))
    return home === undefined ? [] : [ticketIdOf({ remote: home.remote, number })]
  })
  return [...new Set(ids)]
}

/** Read once for each issue as it is: there may be thousands, with long texts, and they are looked at all the time. */
const said = new WeakMap<Issue, readonly IssuePlace[]>()

function saidBy(issue: Issue, host: string): readonly IssuePlace[] {
  const places = said.get(issue) ?? blockersIn(issue.body, issue.remote, host)
  said.set(issue, places)
  return places
}
