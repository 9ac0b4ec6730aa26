/**
 * The issues of the configured repositories as a tracker, for those who have no other.
 *
 * States are labels (see `github-issue`), projects are repositories. A repository that cannot be read is named, and the
 * others are right all the same; what was known of it before stands. What an issue waits for is what GitHub knows, and
 * what its text says; only issues of configured repositories hold one up, since no others are looked at.
 */
import type {
  Cancel,
  Clock,
  PullLink,
  TrackedTicket,
  Tracker,
  TrackerPicture,
  TrackerWish,
} from '../../core/ports.ts'
import { type Answer, type No, no, yes } from '../../core/refusal.ts'
import { folded, listed } from '../../core/tickets/names.ts'
import { repoOf } from '../../core/tickets/repo.ts'
import type { RepoMapping, ServiceConfig } from '../../protocol/config.ts'
import { printable } from '../../protocol/explain.ts'
import { TICKET_PROBLEMS_MAX, TRACKER_PROJECTS_MAX } from '../../protocol/limits.ts'
import type { TrackerProject } from '../../protocol/tracker.ts'
import { GITHUB_API } from '../codehost/github/address.ts'
import { type GithubAccount, type GithubApi, githubApi } from '../codehost/github/api.ts'
import type { Couriers } from '../courier.ts'
import { blockersIn } from './github-blockers.ts'
import {
  type Issue,
  type IssuePlace,
  issuePlaceOf,
  stateNames,
  ticketIdOf,
  trackedOf,
} from './github-issue.ts'
import { OPEN_ISSUES_MAX, RepoIssues, readIssue } from './github-issues.ts'
import { moveIssue } from './github-move.ts'

export interface GithubTrackerParts {
  readonly couriers: Couriers
  readonly clock: Pick<Clock, 'monotonic'>
  /** As it is right now: repositories and states may change while the tracker stays the same. */
  readonly config: () => ServiceConfig
}

/** With many repositories each is asked less often: GitHub also counts the requests of a minute. */
const REPO_PAUSE_MS = 200
/** Of tickets that are cared about and not known, so many are asked for in one look. */
const WISHES_ASKED_MAX = 100

export function githubTracker(parts: GithubTrackerParts): Tracker {
  return new GithubTracker(parts)
}

/** The token of the code host is good for its issues, too. undefined: there is none. */
export function githubTrackerAccount({ tracker, codehost }: ServiceConfig): GithubAccount | undefined {
  const apiUrl = tracker.apiUrl ?? (codehost.driver === 'github' ? codehost.apiUrl : undefined)
  const isSamePlace = codehost.driver === 'github' && sameAddress(apiUrl, codehost.apiUrl)
  const token = tracker.apiKey || (isSamePlace ? codehost.token : undefined)
  if (token === undefined || token === '') return undefined
  return { token, apiUrl, field: tracker.apiUrl === undefined ? 'codehost.apiUrl' : 'tracker.apiUrl' }
}

const sameAddress = (a = GITHUB_API, b = GITHUB_API): boolean =>
  a.replace(/\/+$/, '') === b.replace(/\/+$/, '')

class GithubTracker implements Tracker {
  readonly #parts: GithubTrackerParts
  readonly #repos = new Map<string, RepoIssues>()
  /** Two looks at once would read everything twice. */
  #looking: Promise<unknown> = Promise.resolve()

  constructor(parts: GithubTrackerParts) {
    this.#parts = parts
  }

  look(wish: TrackerWish): Promise<Answer<TrackerPicture>> {
    const look = this.#looking.then(() => this.#look(wish))
    this.#looking = look.catch(() => undefined)
    return look
  }

  /** GitHub tells only what it can reach, and this host mostly is not. */
  watch(_changed: () => void): Cancel {
    return () => undefined
  }

  async moveTo(ticketId: string, state: string): Promise<Answer<void>> {
    const api = this.#api()
    if (!api.ok) return api
    const config = this.#parts.config()
    const place = issuePlaceOf(ticketId)
    const home = place === undefined ? undefined : homesOf(config).get(folded(place.remote))
    if (place === undefined || home === undefined) {
      return no('unknown', `${printable(ticketId)} is no issue of a configured repository`)
    }
    const issue = await readIssue(api.value, place)
    return lasting(issue.ok ? await moveIssue(api.value, issue.value, state, stateNames(config)) : issue)
  }

  /** GitHub itself notes in an issue which pull requests link to it, and those of the service do. */
  async linkPull(_ticketId: string, _link: PullLink): Promise<Answer<void>> {
    return yes(undefined)
  }

  async projects(): Promise<Answer<readonly TrackerProject[]>> {
    const api = this.#api()
    if (!api.ok) return api
    const homes = [...homesOf(this.#parts.config()).values()].slice(0, TRACKER_PROJECTS_MAX)
    return yes(
      homes.map(({ remote }) => ({
        id: remote,
        name: remote,
        url: `${api.value.address.site}/${remote}`,
        teams: [],
      })),
    )
  }

  #api(): Answer<GithubApi> {
    const account = githubTrackerAccount(this.#parts.config())
    if (account !== undefined) return githubApi(account, this.#parts.couriers)
    return no('unauthorized', 'GitHub needs a token: connect GitHub, or give one as trackerApiKey')
  }

  // ---- looking -----------------------------------------------------------------------------------------------------

  async #look(wish: TrackerWish): Promise<Answer<TrackerPicture>> {
    const api = this.#api()
    if (!api.ok) return api
    const homes = homesOf(this.#parts.config())
    this.#keepOnly(homes)
    const looked = await Promise.all(
      [...homes].map(async ([key, home]) => ({
        home,
        answer: await this.#issuesOf(key, home.remote).look(api.value, homes.size * REPO_PAUSE_MS),
      })),
    )
    const refused = looked.flatMap(({ home, answer }) => (answer.ok ? [] : [{ home, answer }]))
    const fatal = fatalOf(
      refused.map(({ answer }) => answer),
      homes.size,
    )
    if (fatal !== undefined) return fatal
    const strays = await this.#strays(api.value, wish, homes)
    const problems = [
      ...(homes.size === 0
        ? ['no repository is configured whose issues could be read; add one under repos']
        : []),
      ...refused.map(({ home, answer }) => `${home.remote}: ${answer.refusal.message}`),
      ...strays.problems,
      ...this.#cutShort(homes),
    ]
    const known = [...homes.keys()].flatMap((key) => [...(this.#repos.get(key)?.all() ?? [])])
    const tickets = this.#tickets([...known, ...strays.issues], homes, new URL(api.value.address.site).host)
    return yes({ tickets, problems: problems.slice(0, TICKET_PROBLEMS_MAX) })
  }

  #issuesOf(key: string, remote: string): RepoIssues {
    const issues = this.#repos.get(key) ?? new RepoIssues(remote, this.#parts.clock)
    this.#repos.set(key, issues)
    return issues
  }

  #keepOnly(homes: ReadonlyMap<string, Home>): void {
    for (const key of this.#repos.keys()) if (!homes.has(key)) this.#repos.delete(key)
  }

  #cutShort(homes: ReadonlyMap<string, Home>): string[] {
    const short = [...homes].filter(([key]) => this.#repos.get(key)?.cutShort === true)
    if (short.length === 0) return []
    const names = listed(short.map(([, { remote }]) => remote))
    return [
      `${names}: more than ${OPEN_ISSUES_MAX} issues and pull requests are open; only those that changed last are looked at`,
    ]
  }

  /** Tickets that are cared about and in no list: closed before we looked, or of a repository that was taken out. */
  async #strays(api: GithubApi, wish: TrackerWish, homes: ReadonlyMap<string, Home>): Promise<Strays> {
    const places = wish.tickets.flatMap((id) => issuePlaceOf(id) ?? [])
    const unknown = places.filter((place) => this.#known(place) === undefined).slice(0, WISHES_ASKED_MAX)
    const found = await Promise.all(unknown.map((place) => this.#find(api, place, homes)))
    const outside = found.flatMap((answer) => (answer.ok && answer.value !== undefined ? [answer.value] : []))
    return {
      issues: outside.filter(({ remote }) => !homes.has(folded(remote))),
      problems: found.flatMap((answer) => (answer.ok ? [] : [answer.refusal.message])).slice(0, 1),
    }
  }

  #known({ remote, number }: IssuePlace): Issue | undefined {
    return this.#repos.get(folded(remote))?.get(number)
  }

  #find(
    api: GithubApi,
    { remote, number }: IssuePlace,
    homes: ReadonlyMap<string, Home>,
  ): Promise<Answer<Issue | undefined>> {
    const key = folded(remote)
    const issues = homes.has(key) ? this.#issuesOf(key, remote) : new RepoIssues(remote, this.#parts.clock)
    return issues.find(api, number)
  }

  // ---- tickets -----------------------------------------------------------------------------------------------------

  #tickets(issues: readonly Issue[], homes: ReadonlyMap<string, Home>, host: string): TrackedTicket[] {
    const config = this.#parts.config()
    const names = stateNames(config)
    return issues.map((issue) => {
      const home = homes.get(folded(issue.remote))
      const setting = {
        stateNames: names,
        assignees: config.tracker.eligible.assignees,
        identifier: `${home?.name ?? issue.remote}#${issue.number}`,
        repo: undefined,
        blockedBy: this.#blockersOf(issue, homes, host),
      }
      const tracked = trackedOf(issue, setting)
      const repo = home === undefined ? undefined : keyOf(tracked, home)
      return repo === undefined ? tracked : { ...tracked, ticket: { ...tracked.ticket, repo } }
    })
  }

  #blockersOf(issue: Issue, homes: ReadonlyMap<string, Home>, host: string): string[] {
    const known = this.#repos.get(folded(issue.remote))?.waitsFor(issue.number) ?? []
    const said = blockersIn(issue.body, issue.remote, host)
    const ids = [...known, ...said].flatMap(({ remote, number }) => {
      const home = homes.get(folded(remote))
      return home === undefined ? [] : [ticketIdOf({ remote: home.remote, number })]
    })
    return [...new Set(ids)]
  }
}

interface Strays {
  readonly issues: readonly Issue[]
  readonly problems: readonly string[]
}

// ---- repositories --------------------------------------------------------------------------------------------------

/** A repository, and every mapping that is for it. */
interface Home {
  readonly remote: string
  /** For people: without its owner where that is plain. */
  readonly name: string
  readonly mappings: ServiceConfig['repos']
}

/** By their names in small letters. */
function homesOf({ repos }: ServiceConfig): ReadonlyMap<string, Home> {
  const homes = new Map<string, { remote: string; mappings: Record<string, RepoMapping> }>()
  for (const [key, mapping] of Object.entries(repos)) {
    const home = homes.get(folded(mapping.remote)) ?? { remote: mapping.remote, mappings: {} }
    home.mappings[key] = mapping
    homes.set(folded(mapping.remote), home)
  }
  const names = [...homes.keys()].map(baseName)
  return new Map(
    [...homes].map(([key, home]) => {
      const isPlain = names.filter((name) => name === baseName(key)).length === 1
      return [key, { ...home, name: isPlain ? baseName(home.remote) : home.remote }]
    }),
  )
}

const baseName = (remote: string): string => remote.slice(remote.indexOf('/') + 1)

/** An issue's work goes to its own repository; of several mappings for that one, to the one that fits. */
function keyOf({ ticket }: TrackedTicket, { mappings }: Home): string | undefined {
  const [only, ...others] = Object.keys(mappings)
  if (others.length === 0) return only
  const choice = repoOf(ticket, mappings)
  return choice.ok ? choice.value.key : undefined
}

// ---- refusals ------------------------------------------------------------------------------------------------------

/** A token that is not taken is taken nowhere. */
function fatalOf(refused: readonly No[], repos: number): No | undefined {
  const dead = refused.find(({ refusal }) => refusal.kind === 'unauthorized')
  return dead ?? (repos > 0 && refused.length === repos ? refused[0] : undefined)
}

/** A move that GitHub does not allow is not tried for ever. */
function lasting(moved: Answer<void> | No): Answer<void> {
  if (moved.ok) return moved
  const { kind, message } = moved.refusal
  return kind === 'forbidden' || kind === 'gone' ? no('invalid', message) : moved
}
