/**
 * Creates an issue with its labels and assignee in one request.
 *
 * The label of the first eligible state makes the issue eligible; without one it is just open. GitHub makes labels that
 * the repository lacks, and leaves labels out when the token may not push.
 */
import type { NewTicket } from '../../../core/ports/tracker.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { isSameName, normalizeName } from '../../../core/tickets/names.ts'
import { chooseRepoFor, placeNewTicket } from '../../../core/tickets/new-ticket.ts'
import type { RepoMapping } from '../../../protocol/config.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { type GithubApi, repoPath } from '../../github/api.ts'
import { unexpectedReply } from '../../github/errors.ts'
import { type GithubIssue, OPEN_STATE, toGithubIssue } from './issue.ts'
import type { TicketRepository } from './tickets.ts'

/** GitHub refuses a longer body. */
const BODY_CHARS_MAX = 65_536
const PRIORITY_LABELS = ['', 'urgent', 'high', 'medium', 'low'] as const

export interface NewIssue {
  /** `owner/name` as configured. */
  readonly remote: string
  readonly title: string
  readonly body: string
  readonly labels: readonly string[]
  readonly assignees: readonly string[]
}

/** Decides everything about the issue without asking GitHub. */
export function planIssue(
  ticket: NewTicket,
  repositories: ReadonlyMap<string, TicketRepository>,
): Result<NewIssue> {
  if (ticket.description.length > BODY_CHARS_MAX)
    return no('invalid', `/description: GitHub takes at most ${BODY_CHARS_MAX} characters`)
  const mapping = findMapping(ticket, repositories)
  if (!mapping.ok) return mapping
  const { remote } = mapping.value
  const { rules, isEligible } = ticket
  if (isEligible && rules.projects.length > 0 && !rules.projects.some((name) => isSameName(name, remote)))
    return no('conflict', `issues of ${remote} are not eligible: add it to tracker.eligible.projects`)
  const place = placeNewTicket(ticket, OPEN_STATE)
  if (!place.ok) return place
  const { state = OPEN_STATE, labels, assignee } = place.value
  return yes({
    remote,
    title: ticket.title,
    body: ticket.description,
    labels: [
      ...labels,
      ...(isSameName(state, OPEN_STATE) ? [] : [state.trim()]),
      ...mappingLabel(ticket, repositories),
      ...(ticket.priority === 0 ? [] : [`priority: ${PRIORITY_LABELS[ticket.priority]}`]),
    ],
    assignees: assignee === undefined ? [] : [assignee],
  })
}

function findMapping(
  ticket: NewTicket,
  repositories: ReadonlyMap<string, TicketRepository>,
): Result<RepoMapping> {
  if (ticket.repo !== undefined) return yes(ticket.repo.mapping)
  const [only, ...more] = repositories.values()
  const [mapping] = Object.values(only?.mappings ?? {})
  if (mapping === undefined) return NO_REPOSITORY
  if (more.length === 0) return yes(mapping)
  const choice = chooseRepoFor(ticket, { labels: ticket.labels, project: undefined })
  return choice.ok ? yes(choice.value.mapping) : no('invalid', `/repo: ${choice.refusal.message}`)
}

const NO_REPOSITORY = no('conflict', 'no repository is configured for the issue; add one under repos')

/** Among several mappings of one repository a label tells which is meant. */
function mappingLabel({ repo }: NewTicket, repositories: ReadonlyMap<string, TicketRepository>): string[] {
  if (repo?.mapping.label === undefined) return []
  const { mappings = {} } = repositories.get(normalizeName(repo.mapping.remote)) ?? {}
  return Object.keys(mappings).length > 1 ? [repo.mapping.label] : []
}

export async function createIssue(
  api: GithubApi,
  { remote, ...body }: NewIssue,
): Promise<Result<GithubIssue>> {
  const repo = repoPath(remote)
  if (!repo.ok) return repo
  const subject = `issues of ${printable(remote)}`
  const labels = body.labels.filter(
    (name, index) => body.labels.findIndex((earlier) => isSameName(earlier, name)) === index,
  )
  const reply = await api.write('POST', `${repo.value}/issues`, subject, { ...body, labels })
  if (!reply.ok) return reply
  const issue = toGithubIssue(reply.value, remote)
  return issue === undefined ? unexpectedReply(subject) : yes(issue)
}
