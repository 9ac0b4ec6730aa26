/**
 * Tracker for the issues of the configured GitHub repositories.
 *
 * States are labels (see `issue.ts`), projects are repositories. A repository that cannot be read is reported,
 * its known issues stay, and the others are unaffected. Blockers come from GitHub and from the issue text; only issues
 * of configured repositories count, because no others are read.
 *
 * Pull requests are not linked, because GitHub itself shows in an issue which pull requests refer to it.
 */
import type { Cancel, Clock } from '../../../core/ports/clock.ts'
import type {
  NewTicket,
  TicketComment,
  TrackedTicket,
  Tracker,
  TrackerListing,
  TrackerQuery,
} from '../../../core/ports/tracker.ts'
import { no, type Refused, type Result, yes } from '../../../core/result.ts'
import { formatNames, isSameName, normalizeName } from '../../../core/tickets/names.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import { TICKET_PROBLEMS_MAX, TRACKER_PROJECTS_MAX } from '../../../protocol/limits.ts'
import type { TicketEdit } from '../../../protocol/run.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { TrackerProject } from '../../../protocol/tracker.ts'
import { createGithubApi, type GithubApi } from '../../github/api.ts'
import { unexpectedReply } from '../../github/errors.ts'
import type { ClientPool } from '../../http/client-types.ts'
import { resolveGithubAccount } from './account.ts'
import { createIssue, planIssue } from './create-issue.ts'
import {
  formatTicketId,
  type GithubIssue,
  type IssueReference,
  listStateNames,
  OPEN_STATE,
  parseTicketId,
} from './issue.ts'
import {
  commentOn,
  type EligibleLabels,
  editAfterLabel,
  GithubIssues,
  mayHaveForeignEdits,
  OPEN_ISSUES_MAX,
  readIssue,
} from './issues.ts'
import { isClosingState, moveIssue } from './move.ts'
import { listTicketRepositories, type TicketRepository, toTickets } from './tickets.ts'

export interface GithubTrackerOptions {
  readonly clients: ClientPool
  readonly clock: Pick<Clock, 'monotonic'>
  readonly config: ServiceConfig
}

/** Spreads requests over many repositories: GitHub also limits requests per minute. */
const REFRESH_INTERVAL_MS_PER_REPO = 200
/** Requested tickets outside the lists that one poll reads. */
const UNLISTED_READ_MAX = 100
const MOVE_TARGETS_MAX = 16
/** Issues whose edits one poll reads. */
const EDITS_READ_MAX = 100

export function createGithubTracker(options: GithubTrackerOptions): Tracker {
  return new GithubTracker(options)
}

class GithubTracker implements Tracker {
  readonly #clock: GithubTrackerOptions['clock']
  readonly #tracker: ServiceConfig['tracker']
  readonly #api: Result<GithubApi>
  /** Keyed by normalized repository name, as are the issues. */
  readonly #repositories: ReadonlyMap<string, TicketRepository>
  readonly #issues: ReadonlyMap<string, GithubIssues>
  /** Targets of recent moves, which count as states even if the configuration changed since. */
  readonly #moveTargets = new Set<string>()
  #rules: TrackerQuery['rules']
  /** Serializes reads, because concurrent reads would request everything twice. */
  #lastRead: Promise<unknown> = Promise.resolve()

  constructor({ clients, clock, config }: GithubTrackerOptions) {
    this.#clock = clock
    this.#tracker = config.tracker
    this.#rules = config.tracker.eligible
    const account = resolveGithubAccount(config)
    this.#api = account === undefined ? TOKEN_MISSING : createGithubApi(account, clients)
    this.#repositories = listTicketRepositories(config)
    this.#issues = new Map(
      [...this.#repositories].map(([key, { remote }]) => [key, new GithubIssues(remote, clock)] as const),
    )
  }

  listTickets(query: TrackerQuery): Promise<Result<TrackerListing>> {
    const read = this.#lastRead.then(() => this.#read(query))
    this.#lastRead = read.catch(() => undefined)
    return read
  }

  /** GitHub's webhooks need a reachable address, which this host usually lacks. */
  watch(_onChange: () => void): Cancel {
    return () => undefined
  }

  async moveTicket(ticketId: string, state: string, from?: readonly string[]): Promise<Result<void>> {
    const found = this.#find(ticketId)
    if (!found.ok) return found
    const { api, reference } = found.value
    this.#recordMoveTarget(state)
    const issue = await readIssue(api, reference)
    return toLastingRefusal(
      issue.ok ? await moveIssue(api, issue.value, { state, from }, this.#stateNames()) : issue,
    )
  }

  async comment(ticketId: string, comment: TicketComment): Promise<Result<void>> {
    const found = this.#find(ticketId)
    return found.ok
      ? toLastingRefusal(await commentOn(found.value.api, found.value.reference, comment))
      : found
  }

  async createTicket(ticket: NewTicket): Promise<Result<TrackedTicket>> {
    if (!this.#api.ok) return this.#api
    const api = this.#api.value
    const planned = planIssue(ticket, this.#repositories)
    if (!planned.ok) return planned
    const created = await createIssue(api, planned.value)
    if (!created.ok) return created
    this.#issues.get(normalizeName(created.value.remote))?.add(created.value)
    this.#rules = ticket.rules
    // A new issue has no edits.
    const [tracked] = this.#tickets([created.value], api, () => undefined)
    return tracked === undefined ? unexpectedReply(planned.value.remote) : yes(tracked)
  }

  async projects(): Promise<Result<readonly TrackerProject[]>> {
    if (!this.#api.ok) return this.#api
    const { site } = this.#api.value.address
    const repositories = [...this.#repositories.values()].slice(0, TRACKER_PROJECTS_MAX)
    return yes(
      repositories.map(({ remote }) => ({ id: remote, name: remote, url: `${site}/${remote}`, teams: [] })),
    )
  }

  #find(ticketId: string): Result<{ readonly api: GithubApi; readonly reference: IssueReference }> {
    if (!this.#api.ok) return this.#api
    const reference = parseTicketId(ticketId)
    return reference !== undefined && this.#repositories.has(normalizeName(reference.remote))
      ? yes({ api: this.#api.value, reference })
      : no('unknown', `${printable(ticketId)} is not an issue of a configured repository`)
  }

  #recordMoveTarget(state: string): void {
    this.#moveTargets.delete(state)
    this.#moveTargets.add(state)
    for (const oldest of this.#moveTargets)
      if (this.#moveTargets.size > MOVE_TARGETS_MAX) this.#moveTargets.delete(oldest)
  }

  #stateNames(): readonly string[] {
    const { startedState, reviewState, doneState = '', releasedState = '' } = this.#tracker
    const [done, released] = [doneState, releasedState].map((name) => (isClosingState(name) ? '' : name))
    return listStateNames({
      rules: this.#rules,
      startedState,
      reviewState,
      doneState: done,
      releasedState: released,
      moveTargets: [...this.#moveTargets].filter((state) => !isClosingState(state)),
    })
  }

  // ---- reading ------------------------------------------------------------------------------------------------------

  async #read({ rules, tickets }: TrackerQuery): Promise<Result<TrackerListing>> {
    if (!this.#api.ok) return this.#api
    const api = this.#api.value
    this.#rules = rules
    const refused = await this.#refreshAll(api)
    const fatalRefusal = findFatalRefusal([...refused.values()], this.#repositories.size)
    if (fatalRefusal !== undefined) return fatalRefusal
    const unlisted = await this.#readUnlisted(api, tickets)
    const known = [...this.#issues.values()].flatMap((issues) => [...issues.all()])
    const editsRead = await this.#readEdits(api, known, new Set(tickets))
    if (!editsRead.ok) return editsRead
    const problems = [
      ...(this.#repositories.size === 0 ? [NO_REPOSITORY_PROBLEM] : []),
      ...[...refused].map(([remote, { refusal }]) => `${remote}: ${refusal.message}`),
      ...unlisted.problems,
      ...editsRead.value,
      ...this.#truncationProblems(),
    ]
    return yes({
      tickets: this.#tickets([...known, ...unlisted.issues], api, (issue) => this.#editOf(issue)),
      problems: problems.slice(0, TICKET_PROBLEMS_MAX),
    })
  }

  /** Refusals by repository. */
  async #refreshAll(api: GithubApi): Promise<ReadonlyMap<string, Refused>> {
    const intervalMs = this.#repositories.size * REFRESH_INTERVAL_MS_PER_REPO
    const read = await Promise.all(
      [...this.#issues.values()].map(async (issues) => ({
        issues,
        answer: await issues.refresh(api, intervalMs),
      })),
    )
    return new Map(
      read.flatMap(({ issues, answer }) => (answer.ok ? [] : [[issues.remote, answer] as const])),
    )
  }

  /**
   * Reads the edits of changed issues that a stranger has written and somebody has labelled, those with a run first. An
   * issue whose edits can't be read is left out of the listing. With a run it would count as taken back, so then there is
   * no listing.
   */
  async #readEdits(
    api: GithubApi,
    known: readonly GithubIssue[],
    withRun: ReadonlySet<string>,
  ): Promise<Result<string[]>> {
    const labels = this.#eligibleLabels()
    const wanted = known.filter(
      (issue) => mayHaveForeignEdits(issue, labels) && this.#issuesOf(issue)?.editsOf(issue) === undefined,
    )
    const hasRun = (issue: GithubIssue) => withRun.has(formatTicketId(issue))
    const first = wanted.filter(hasRun)
    const asked = [...first, ...wanted.filter((issue) => !hasRun(issue))].slice(0, EDITS_READ_MAX)
    const answers = await Promise.all(asked.map((issue) => this.#issuesOf(issue)?.readEdits(api, issue)))
    const refusals = answers.map((answer) => (answer === undefined || answer.ok ? undefined : answer))
    const ofRun = refusals.slice(0, first.length).find((each) => each !== undefined)
    if (ofRun !== undefined) return ofRun
    const refused = refusals.find((each) => each !== undefined)
    if (refused === undefined && wanted.length <= EDITS_READ_MAX) return yes([])
    const why = refused?.refusal.message ?? `so far ${EDITS_READ_MAX} of ${wanted.length} were asked about`
    return yes([`issues of strangers wait until their edits are read: ${why}`])
  }

  #editOf(issue: GithubIssue): TicketEdit | 'unknown' | undefined {
    const labels = this.#eligibleLabels()
    const issues = this.#issuesOf(issue)
    if (issues === undefined || !mayHaveForeignEdits(issue, labels)) return undefined
    const edits = issues.editsOf(issue)
    return edits === undefined ? 'unknown' : editAfterLabel(issue, edits, labels)
  }

  #issuesOf({ remote }: GithubIssue): GithubIssues | undefined {
    return this.#issues.get(normalizeName(remote))
  }

  /** An issue that is eligible while it is just open needs no label, so none is a word about its text. */
  #eligibleLabels(): EligibleLabels {
    const { startedState = '', reviewState = '', doneState = '', releasedState = '' } = this.#tracker
    const { labels, states } = this.#rules
    const isOpenEnough = states.length === 0 || states.some((state) => isSameName(state, OPEN_STATE))
    return {
      names: isOpenEnough ? labels : [...labels, ...states],
      ofHost: [startedState, reviewState, doneState, releasedState].filter((name) => name !== ''),
    }
  }

  #tickets(
    issues: readonly GithubIssue[],
    api: GithubApi,
    editOf: (issue: GithubIssue) => TicketEdit | 'unknown' | undefined,
  ) {
    return toTickets(issues, {
      repositories: this.#repositories,
      stateNames: this.#stateNames(),
      assignees: this.#rules.assignees,
      host: new URL(api.address.site).host,
      editOf,
      blockersOf: ({ remote, number }) => this.#issues.get(normalizeName(remote))?.blockersOf(number) ?? [],
    })
  }

  #truncationProblems(): string[] {
    const truncated = [...this.#issues.values()].filter(({ isTruncated }) => isTruncated)
    if (truncated.length === 0) return []
    const names = formatNames(truncated.map(({ remote }) => remote))
    return [
      `${names}: more than ${OPEN_ISSUES_MAX} issues and pull requests are open; only the most recently changed are read`,
    ]
  }

  /**
   * Reads requested tickets that no list holds: closed before the first read, or in a repository no longer configured.
   */
  async #readUnlisted(api: GithubApi, tickets: readonly string[]): Promise<UnlistedIssues> {
    const places = tickets.flatMap((id) => parseTicketId(id) ?? [])
    const isKnown = ({ remote, number }: IssueReference) =>
      this.#issues.get(normalizeName(remote))?.get(number) !== undefined
    const unknown = places.filter((place) => !isKnown(place)).slice(0, UNLISTED_READ_MAX)
    const found = await Promise.all(unknown.map((place) => this.#readIssue(api, place)))
    const issues = found.flatMap((answer) => (answer.ok && answer.value !== undefined ? [answer.value] : []))
    return {
      // Issues of configured repositories are in their cache now.
      issues: issues.filter(({ remote }) => !this.#repositories.has(normalizeName(remote))),
      problems: found.flatMap((answer) => (answer.ok ? [] : [answer.refusal.message])).slice(0, 1),
    }
  }

  #readIssue(api: GithubApi, { remote, number }: IssueReference): Promise<Result<GithubIssue | undefined>> {
    const issues = this.#issues.get(normalizeName(remote)) ?? new GithubIssues(remote, this.#clock)
    return issues.read(api, number)
  }
}

interface UnlistedIssues {
  readonly issues: readonly GithubIssue[]
  readonly problems: readonly string[]
}

// ---- refusals -------------------------------------------------------------------------------------------------------

const TOKEN_MISSING = no('unauthorized', 'GitHub needs a token: switchyard connect codehost')
const NO_REPOSITORY_PROBLEM = 'no repository is configured whose issues could be read; add one under repos'

/** A rejected token fails for all repositories. */
function findFatalRefusal(refused: readonly Refused[], repos: number): Refused | undefined {
  const unauthorized = refused.find(({ refusal }) => refusal.kind === 'unauthorized')
  return unauthorized ?? (repos > 0 && refused.length === repos ? refused[0] : undefined)
}

/** A forbidden move becomes `invalid`, so that it is not retried. */
function toLastingRefusal(moved: Result<void> | Refused): Result<void> {
  if (moved.ok) return moved
  const { kind, message } = moved.refusal
  return kind === 'forbidden' || kind === 'gone' ? no('invalid', message) : moved
}
