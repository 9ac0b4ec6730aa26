/**
 * PullStatePoller asks the code host for the state of pull requests: every two minutes for open ones of recent runs,
 * and at once when a person opens a run.
 *
 * A state that the code host does not return, because it is unreachable or its budget is used up, stays as it was.
 */
import type { Cancel } from '../../core/ports/clock.ts'
import type { PullReference, PullRequestApi, Urgency } from '../../core/ports/code-host.ts'
import type { ControlDatabase } from '../../core/ports/store.ts'
import type { Refusal, Result } from '../../core/result.ts'
import { isSamePull } from '../../core/run/run-pull.ts'
import type { PullState, Run } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'

/** Interval of the poll of pull request states, and the number of recent runs it covers. */
export const PULL_POLL_MS = 2 * 60_000
const PULL_POLL_RUNS_MAX = 200

export interface PullStatePollerPorts extends Pick<HostContext, 'clock' | 'log' | 'pullRequestApi'> {
  readonly runs: Pick<ControlDatabase['runs'], 'get' | 'list'>
  readonly latestRun: (id: string) => Run | undefined
  /** Returns where the run's confirmed pull request is; refused while there is none. */
  readonly placeOf: (run: Run, codeHost: PullRequestApi) => Result<PullReference>
  /** Called with recent runs whose pull request the code host has not confirmed. */
  readonly onUnconfirmed: (runId: string) => void
  readonly onPullState: (runId: string, url: string, state: PullState) => void
  /** Called after each poll of a repository; `refusal`: why the code host did not answer. */
  readonly onPolled: (remote: string, refusal: Refusal | undefined) => void
  /** Called after each round with the repositories that were polled in it. */
  readonly onRound: (remotes: ReadonlySet<string>) => void
}

/** How many of the latest runs are searched for open pull requests. */
const RUNS_SCANNED_MAX = 2_000
/** The shortest time between two polls of one run, so that reloading a page does not poll again. */
const POLL_INTERVAL_MS_MIN = 5_000
const POLL_TIMES_KEPT_MAX = 1_000

interface WatchedPull {
  readonly run: Run
  readonly url: string
  readonly place: PullReference
}

export class PullStatePoller {
  readonly #ports: PullStatePollerPorts
  readonly #polledAt = new Map<string, number>()
  #cancelTimer: Cancel = () => {}
  #isStopped = false

  constructor(ports: PullStatePollerPorts) {
    this.#ports = ports
  }

  start(): void {
    this.#cancelTimer = this.#ports.clock.after(PULL_POLL_MS, () => void this.#pollUnfinished())
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelTimer()
  }

  /** Polls the pull request of a run that a person has opened. Returns at once. */
  pollRun(run: Run): void {
    const now = this.#ports.clock.monotonic()
    const last = this.#polledAt.get(run.id)
    if (run.prUrl === undefined || (last !== undefined && now - last < POLL_INTERVAL_MS_MIN)) return
    if (this.#polledAt.size >= POLL_TIMES_KEPT_MAX) this.#polledAt.clear()
    this.#polledAt.set(run.id, now)
    void this.#poll(() => [run], 'person')
  }

  /** Polls a pull request that a person has changed. Returns at once. */
  pollPull(place: PullReference): void {
    const pulls = this.#ports.pullRequestApi()
    if (!pulls.ok) return
    const isOfPull = (run: Run): boolean => {
      const found = this.#ports.placeOf(run, pulls.value)
      // The configuration may spell the repository in another case than the code host.
      return found.ok && isSamePull(found.value, place)
    }
    void this.#poll(() => this.#recent().filter(isOfPull), 'person')
  }

  async #pollUnfinished(): Promise<void> {
    const remotes = await this.#poll(() => this.#unfinished(), 'background')
    if (this.#isStopped) return
    this.#ports.onRound(new Set(remotes))
    this.start()
  }

  #recent(): Run[] {
    return this.#ports.runs
      .list({ limit: RUNS_SCANNED_MAX })
      .map((run) => this.#ports.latestRun(run.id) ?? run)
  }

  #unfinished(): Run[] {
    const recent = this.#recent()
    for (const { id, pull } of recent) if (pull?.confirmed === false) this.#ports.onUnconfirmed(id)
    return recent
      .filter(({ prUrl, prState }) => prUrl !== undefined && prState !== 'merged' && prState !== 'closed')
      .slice(0, PULL_POLL_RUNS_MAX)
  }

  /** Polls the pull requests of the selected runs, and returns their repositories. Never rejects: errors are logged. */
  async #poll(selectRuns: () => readonly Run[], urgency: Urgency): Promise<readonly string[]> {
    try {
      const pulls = this.#ports.pullRequestApi()
      const runs = pulls.ok ? selectRuns() : []
      if (!pulls.ok || runs.length === 0) return []
      const byRemote = groupByRemote(this.#watchedPulls(runs, pulls.value))
      const polls = [...byRemote].map(([remote, watched]) =>
        this.#pollRemote(pulls.value, remote, watched, urgency),
      )
      await Promise.all(polls)
      return [...byRemote.keys()]
    } catch (error) {
      this.#ports.log.error({ err: error }, 'pull requests of runs could not be polled')
      return []
    }
  }

  #watchedPulls(runs: readonly Run[], codeHost: PullRequestApi): WatchedPull[] {
    return runs.flatMap((run) => {
      const place = this.#ports.placeOf(run, codeHost)
      return run.prUrl === undefined || !place.ok ? [] : [{ run, url: run.prUrl, place: place.value }]
    })
  }

  async #pollRemote(
    pulls: PullRequestApi,
    remote: string,
    watched: readonly WatchedPull[],
    urgency: Urgency,
  ): Promise<void> {
    const numbers = [...new Set(watched.map(({ place }) => place.number))]
    const states = await pulls.states(remote, numbers, urgency)
    if (this.#isStopped) return
    this.#ports.onPolled(remote, states.ok ? undefined : states.refusal)
    if (!states.ok) {
      this.#ports.log.debug(
        { remote, reason: states.refusal.message },
        'the code host refused the state of pull requests',
      )
      return
    }
    for (const { run, url, place } of watched) {
      const state = states.value.get(place.number)
      if (state !== undefined && state !== run.prState) this.#ports.onPullState(run.id, url, state)
    }
  }
}

function groupByRemote(all: readonly WatchedPull[]): Map<string, WatchedPull[]> {
  const byRemote = new Map<string, WatchedPull[]>()
  for (const watched of all) {
    const group = byRemote.get(watched.place.remote)
    if (group === undefined) byRemote.set(watched.place.remote, [watched])
    else group.push(watched)
  }
  return byRemote
}
