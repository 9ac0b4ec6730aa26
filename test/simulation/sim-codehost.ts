/**
 * SimCodehost is the simulated code host: pull requests, their comments, and pushes to their branches.
 *
 * Answers come late and sometimes not at all. A push must name the commit that the branch is at. Comments are
 * always accepted: the caller must avoid duplicates.
 */
import type {
  PullDetailFacts,
  PullFacts,
  PullIdentity,
  PullReference,
  PullRequestApi,
} from '../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { PullState } from '../../protocol/run.ts'
import type { Random } from '../support/random.ts'
import type { RefusalPlan } from './plan.ts'
import type { Process, Timeline } from './timeline.ts'

const REMOTE = 'o/web'
const SITE = `https://code.example/${REMOTE}/pull/`
const SERVICE_AUTHOR = 'switchyard'
const EPOCH = Date.UTC(2026, 0, 1)

/** The marker that the specification defines. */
const followUpMarker = (id: string): string => `<!-- switchyard:follow-up ${id} -->`

const runMarker = (runId: string, leaseId: string): string =>
  `<!-- switchyard run=${runId} lease=${leaseId} -->`

interface SimPull {
  readonly number: number
  readonly branch: string
  readonly body: string
  state: PullState
  /** The states in which it ever was. */
  readonly states: Set<string>
  /** The follow-up id of each push; the number of pushes is the branch's position. */
  readonly pushes: string[]
  readonly comments: { readonly author: string; readonly body: string; readonly at: number }[]
}

export class SimCodehost {
  readonly #time: Timeline
  readonly #random: Random
  readonly #pulls = new Map<string, SimPull>()
  readonly #byRun = new Map<string, string>()
  readonly #refusals: readonly RefusalPlan[]

  constructor(time: Timeline, random: Random, refusals: readonly RefusalPlan[]) {
    this.#time = time
    this.#random = random
    this.#refusals = refusals
  }

  /** Whether it takes the work of a run now. */
  get takesPushes(): boolean {
    return !this.#refusals.some(({ at, ms }) => at <= this.#time.now && this.#time.now < at + ms)
  }

  /** The pull request of a run; the same one every time. */
  pullOf(runId: string, opened: { readonly branch: string; readonly leaseId: string }): string {
    const known = this.#byRun.get(runId)
    if (known !== undefined) return known
    const url = this.#open(opened.branch, runMarker(runId, opened.leaseId))
    this.#byRun.set(runId, url)
    return url
  }

  findPull(runId: string): string | undefined {
    return this.#byRun.get(runId)
  }

  /** A pull request of somebody else, on a branch that no run works on. */
  openForeignPull(): string {
    return this.#open('a-branch-of-bo', 'A change by bo.')
  }

  /** The address of a pull request that nobody has opened. */
  unmadePull(): string {
    return `${SITE}${900_000 + this.#pulls.size}`
  }

  /** The run whose pull request this is; undefined for a foreign or unmade one. */
  runOf(url: string): string | undefined {
    return [...this.#byRun].find(([, own]) => own === url)?.[0]
  }

  #open(branch: string, body: string): string {
    const number = this.#pulls.size + 1
    const url = `${SITE}${number}`
    this.#pulls.set(url, {
      number,
      branch,
      body,
      state: 'open',
      states: new Set(['open']),
      pushes: [],
      comments: [],
    })
    return url
  }

  /** A person closes, merges or reopens the pull request. */
  togglePull(url: string, merges: boolean): void {
    const pull = this.#pulls.get(url)
    if (pull === undefined || pull.state === 'merged') return
    pull.state = pull.state === 'closed' ? 'open' : merges ? 'merged' : 'closed'
    pull.states.add(pull.state)
  }

  // ---- used by workers ---------------------------------------------------------------------------------------------

  headIndex(url: string): number {
    return this.#pulls.get(url)?.pushes.length ?? 0
  }

  hasPushed(url: string, followUpId: string): boolean {
    return this.#pulls.get(url)?.pushes.includes(followUpId) === true
  }

  /** Returns whether the branch was at the expected commit. */
  push(url: string, expected: number, followUpId: string): boolean {
    const pull = this.#pulls.get(url)
    if (pull === undefined || pull.pushes.length !== expected) return false
    pull.pushes.push(followUpId)
    return true
  }

  addSummary(url: string, followUpId: string): void {
    this.comment(url, `Done.\n\n${followUpMarker(followUpId)}`, SERVICE_AUTHOR)
  }

  comment(url: string, body: string, author = 'bo'): void {
    this.#pulls.get(url)?.comments.push({ author, body, at: this.#time.now })
  }

  wasIn(url: string, state: string): boolean {
    return this.#pulls.get(url)?.states.has(state) === true
  }

  // ---- used by laws ------------------------------------------------------------------------------------------------

  countSummaries(url: string, followUpId: string): number {
    const marker = followUpMarker(followUpId)
    return this.#pulls.get(url)?.comments.filter(({ body }) => body.includes(marker)).length ?? 0
  }

  countPushes(url: string, followUpId: string): number {
    return this.#pulls.get(url)?.pushes.filter((id) => id === followUpId).length ?? 0
  }

  // ---- used by the host --------------------------------------------------------------------------------------------

  viewFor(host: Process): PullRequestApi {
    const unsupported = async () => no('invalid', 'the simulation does not use this')
    const later = <T>(answer: () => Result<T>) => this.#answerLater(host, answer)
    return {
      repos: unsupported,
      list: unsupported,
      merge: unsupported,
      close: unsupported,
      reopen: unsupported,
      markReady: unsupported,
      comment: unsupported,
      review: unsupported,
      reply: unsupported,
      resolveThread: unsupported,
      parseUrl: (url) =>
        url.startsWith(SITE) ? { remote: REMOTE, number: Number(url.slice(SITE.length)) } : undefined,
      states: (_remote, numbers) => later(() => yes(this.#states(numbers))),
      detail: (place) => later(() => this.#detail(place)),
      identity: ({ number }) => later(() => this.#identity(number)),
      branches: ({ number }) =>
        later(() =>
          yes({ headRemote: REMOTE, headBranch: `branch-${number}`, headSha: 'abc', baseBranch: 'main' }),
        ),
    }
  }

  #answerLater<T>(host: Process, answer: () => Result<T>): Promise<Result<T>> {
    return new Promise((resolve) => {
      const ms = 20 + this.#random.fraction() * 800
      const fails = this.#random.chance(0.03)
      if (host.dead) return
      const settle = () => resolve(fails ? no('unavailable', 'the code host did not answer') : answer())
      this.#time.in(ms, settle, host)
    })
  }

  #states(numbers: readonly number[]): ReadonlyMap<number, PullState> {
    const found = [...this.#pulls.values()].filter(({ number }) => numbers.includes(number))
    return new Map(found.map(({ number, state }) => [number, state]))
  }

  #identity(number: number): Result<PullIdentity> {
    const pull = this.#pulls.get(`${SITE}${number}`)
    if (pull === undefined) return no('unknown', 'there is no pull request with this number')
    const { state, branch, body } = pull
    const url = `${SITE}${number}`
    return yes({
      headRemote: REMOTE,
      headBranch: branch,
      headSha: 'abc',
      baseBranch: 'main',
      url,
      state,
      body,
    })
  }

  #detail({ number }: PullReference): Result<PullDetailFacts> {
    const pull = this.#pulls.get(`${SITE}${number}`)
    if (pull === undefined) return no('unknown', 'there is no pull request with this number')
    const comments = pull.comments.map(({ author, body, at }, index) => ({
      id: String(index),
      author,
      body,
      createdAt: instantOf(at),
      url: `${SITE}${number}`,
    }))
    return yes({
      ...factsOf(pull),
      body: '',
      draft: false,
      headSha: 'abc',
      additions: 0,
      deletions: 0,
      changedFiles: 0,
      conversation: { comments, reviews: [], threads: [] },
      files: [],
      commits: [],
      checks: [],
    })
  }
}

const instantOf = (at: number): string => new Date(EPOCH + at).toISOString()

function factsOf({ number, state }: SimPull): PullFacts {
  return {
    number,
    url: `${SITE}${number}`,
    title: `Pull request ${number}`,
    state,
    author: SERVICE_AUTHOR,
    baseBranch: 'main',
    headBranch: `branch-${number}`,
    createdAt: instantOf(0),
    updatedAt: instantOf(0),
  }
}
