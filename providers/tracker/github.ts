/**
 * The issues of the configured repositories as a tracker, for those who have no other.
 *
 * States are labels (see `github-issue`), projects are repositories. A repository that cannot be read is named, and the
 * others are right all the same; what was known of it before stands. What an issue waits for is what GitHub knows, and
 * what its text says; only issues of configured repositories hold one up, since no others are looked at.
 *
 * Pull requests are not linked: GitHub itself notes in an issue which ones lead to it, and those of the service do.
 */
import type { Cancel, Clock, Tracker, TrackerListing, TrackerQuery } from '../../core/ports.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import { formatNames, normalizeName } from '../../core/tickets/names.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { TICKET_PROBLEMS_MAX, TRACKER_PROJECTS_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { TrackerProject } from '../../protocol/tracker.ts'
import { createGithubApi, type GithubApi } from '../codehost/github/api.ts'
import type { ClientPool } from '../http/client-types.ts'
import { githubTrackerAccount } from './github-account.ts'
import { type Issue, type IssuePlace, issuePlaceOf, stateNames } from './github-issue.ts'
import { OPEN_ISSUES_MAX, RepoIssues, readIssue } from './github-issues.ts'
import { isClosing, moveIssue } from './github-move.ts'
import { type Home, homesOf } from './github-repositories.ts'
import { ticketsOf } from './github-tickets.ts'

export interface GithubTrackerParts {
  readonly couriers: ClientPool
  readonly clock: Pick<Clock, 'monotonic'>
  readonly config: ServiceConfig
}

/** With many repositories each is asked less often: GitHub also counts the requests of a minute. */
const REPO_PAUSE_MS = 200
/** Of tickets that are cared about and not known, so many are asked for in one look. */
const WISHES_ASKED_MAX = 100
const TARGETS_MAX = 16

export function githubTracker(parts: GithubTrackerParts): Tracker {
  return new GithubTracker(parts)
}

class GithubTracker implements Tracker {
  readonly #clock: GithubTrackerParts['clock']
  readonly #tracker: ServiceConfig['tracker']
  readonly #api: Result<GithubApi>
  /** By the names of their repositories in small letters, as are the issues. */
  readonly #homes: ReadonlyMap<string, Home>
  readonly #issues: ReadonlyMap<string, RepoIssues>
  /** Where tickets were moved to last: these are states, too, whatever the configuration was when we were made. */
  readonly #targets = new Set<string>()
  #rules: TrackerQuery['rules']
  /** Two looks at once would read everything twice. */
  #looking: Promise<unknown> = Promise.resolve()

  constructor({ couriers, clock, config }: GithubTrackerParts) {
    this.#clock = clock
    this.#tracker = config.tracker
    this.#rules = config.tracker.eligible
    const account = githubTrackerAccount(config)
    this.#api = account === undefined ? NO_TOKEN : createGithubApi(account, couriers)
    this.#homes = homesOf(config)
    this.#issues = new Map(
      [...this.#homes].map(([key, { remote }]) => [key, new RepoIssues(remote, clock)] as const),
    )
  }

  listTickets(wish: TrackerQuery): Promise<Result<TrackerListing>> {
    const look = this.#looking.then(() => this.#look(wish))
    this.#looking = look.catch(() => undefined)
    return look
  }

  /** GitHub tells only what it can reach, and this host mostly is not. */
  watch(_changed: () => void): Cancel {
    return () => undefined
  }

  async moveTicket(ticketId: string, state: string, from?: readonly string[]): Promise<Result<void>> {
    if (!this.#api.ok) return this.#api
    const place = issuePlaceOf(ticketId)
    if (place === undefined || !this.#homes.has(normalizeName(place.remote))) {
      return no('unknown', `${printable(ticketId)} is no issue of a configured repository`)
    }
    this.#aimAt(state)
    const api = this.#api.value
    const issue = await readIssue(api, place)
    return lasting(issue.ok ? await moveIssue(api, issue.value, { state, from }, this.#stateNames()) : issue)
  }

  async projects(): Promise<Result<readonly TrackerProject[]>> {
    if (!this.#api.ok) return this.#api
    const { site } = this.#api.value.address
    const homes = [...this.#homes.values()].slice(0, TRACKER_PROJECTS_MAX)
    return yes(homes.map(({ remote }) => ({ id: remote, name: remote, url: `${site}/${remote}`, teams: [] })))
  }

  #aimAt(state: string): void {
    this.#targets.delete(state)
    this.#targets.add(state)
    for (const oldest of this.#targets) if (this.#targets.size > TARGETS_MAX) this.#targets.delete(oldest)
  }

  #stateNames(): readonly string[] {
    const targets = [...this.#targets].filter((state) => !isClosing(state))
    return stateNames({ ...this.#tracker, rules: this.#rules, targets })
  }

  // ---- looking -----------------------------------------------------------------------------------------------------

  async #look({ rules, tickets }: TrackerQuery): Promise<Result<TrackerListing>> {
    if (!this.#api.ok) return this.#api
    const api = this.#api.value
    this.#rules = rules
    const refused = await this.#readAgain(api)
    const fatal = fatalOf([...refused.values()], this.#homes.size)
    if (fatal !== undefined) return fatal
    const strays = await this.#strays(api, tickets)
    const known = [...this.#issues.values()].flatMap((issues) => [...issues.all()])
    const problems = [
      ...(this.#homes.size === 0 ? [NO_REPOSITORY] : []),
      ...[...refused].map(([remote, { refusal }]) => `${remote}: ${refusal.message}`),
      ...strays.problems,
      ...this.#cutShort(),
    ]
    return yes({
      tickets: this.#tickets([...known, ...strays.issues], api),
      problems: problems.slice(0, TICKET_PROBLEMS_MAX),
    })
  }

  /** Those that could not be read. */
  async #readAgain(api: GithubApi): Promise<ReadonlyMap<string, Refused>> {
    const pauseMs = this.#homes.size * REPO_PAUSE_MS
    const read = await Promise.all(
      [...this.#issues.values()].map(async (issues) => ({ issues, answer: await issues.look(api, pauseMs) })),
    )
    return new Map(
      read.flatMap(({ issues, answer }) => (answer.ok ? [] : [[issues.remote, answer] as const])),
    )
  }

  #tickets(issues: readonly Issue[], api: GithubApi) {
    return ticketsOf(issues, {
      homes: this.#homes,
      stateNames: this.#stateNames(),
      assignees: this.#rules.assignees,
      host: new URL(api.address.site).host,
      waitsFor: ({ remote, number }) => this.#issues.get(normalizeName(remote))?.waitsFor(number) ?? [],
    })
  }

  #cutShort(): string[] {
    const short = [...this.#issues.values()].filter(({ cutShort }) => cutShort)
    if (short.length === 0) return []
    const names = formatNames(short.map(({ remote }) => remote))
    return [
      `${names}: more than ${OPEN_ISSUES_MAX} issues and pull requests are open; only those that changed last are looked at`,
    ]
  }

  /** Tickets that are cared about and in no list: closed before we looked, or of a repository that was taken out. */
  async #strays(api: GithubApi, tickets: readonly string[]): Promise<Strays> {
    const places = tickets.flatMap((id) => issuePlaceOf(id) ?? [])
    const isKnown = ({ remote, number }: IssuePlace) =>
      this.#issues.get(normalizeName(remote))?.get(number) !== undefined
    const unknown = places.filter((place) => !isKnown(place)).slice(0, WISHES_ASKED_MAX)
    const found = await Promise.all(unknown.map((place) => this.#find(api, place)))
    const issues = found.flatMap((answer) => (answer.ok && answer.value !== undefined ? [answer.value] : []))
    return {
      // The others are known from now on.
      issues: issues.filter(({ remote }) => !this.#homes.has(normalizeName(remote))),
      problems: found.flatMap((answer) => (answer.ok ? [] : [answer.refusal.message])).slice(0, 1),
    }
  }

  #find(api: GithubApi, { remote, number }: IssuePlace): Promise<Result<Issue | undefined>> {
    const issues = this.#issues.get(normalizeName(remote)) ?? new RepoIssues(remote, this.#clock)
    return issues.find(api, number)
  }
}

interface Strays {
  readonly issues: readonly Issue[]
  readonly problems: readonly string[]
}

// ---- refusals ------------------------------------------------------------------------------------------------------

const NO_TOKEN = no('unauthorized', 'GitHub needs a token: connect GitHub, or give one as trackerApiKey')
const NO_REPOSITORY = 'no repository is configured whose issues could be read; add one under repos'

/** A token that is not taken is taken nowhere. */
function fatalOf(refused: readonly Refused[], repos: number): Refused | undefined {
  const dead = refused.find(({ refusal }) => refusal.kind === 'unauthorized')
  return dead ?? (repos > 0 && refused.length === repos ? refused[0] : undefined)
}

/** A move that GitHub does not allow is not tried for ever. */
function lasting(moved: Result<void> | Refused): Result<void> {
  if (moved.ok) return moved
  const { kind, message } = moved.refusal
  return kind === 'forbidden' || kind === 'gone' ? no('invalid', message) : moved
}
