/**
 * How the pull requests of runs are doing: asked every two minutes about those of the most recent runs that are not
 * over, and whenever somebody opens a run.
 *
 * Whatever the code host does not say, because it is away or its budget is used up, stays as it was.
 */

import type { Cancel, Clock, ControlDatabase, Log } from '../../core/ports.ts'
import type { PullHost, PullPlace, Urgency } from '../../core/provider-ports.ts'
import type { Result } from '../../core/result.ts'
import { sameName } from '../../core/tickets/names.ts'
import { PULL_WATCH_MS, PULL_WATCH_RUNS_MAX } from '../../protocol/limits.ts'
import type { PullState, Run } from '../../protocol/run.ts'

export interface PullWatchPorts {
  readonly clock: Clock
  readonly log: Log
  readonly runs: ControlDatabase['runs']
  /** Refused while no code host is connected. */
  readonly pulls: () => Result<PullHost>
  readonly newest: (id: string) => Run | undefined
  readonly observed: (runId: string, url: string, state: PullState) => void
}

/** So far back runs are looked through. */
const RUNS_SCANNED_MAX = 2_000
/** A page that is reloaded asks once. */
const OPENED_MS_MIN = 5_000
const OPENED_KEPT_MAX = 1_000

interface Watched {
  readonly run: Run
  readonly url: string
  readonly place: PullPlace
}

export class PullWatch {
  readonly #ports: PullWatchPorts
  readonly #opened = new Map<string, number>()
  #timer: Cancel = () => {}
  #isOver = false

  constructor(ports: PullWatchPorts) {
    this.#ports = ports
  }

  start(): void {
    this.#timer = this.#ports.clock.after(PULL_WATCH_MS, () => void this.#round())
  }

  stop(): void {
    this.#isOver = true
    this.#timer()
  }

  /** Somebody looks at this run; nobody is kept waiting for it. */
  opened(run: Run): void {
    const now = this.#ports.clock.monotonic()
    const last = this.#opened.get(run.id)
    if (run.prUrl === undefined || (last !== undefined && now - last < OPENED_MS_MIN)) return
    if (this.#opened.size >= OPENED_KEPT_MAX) this.#opened.clear()
    this.#opened.set(run.id, now)
    void this.#look(() => [run], 'person')
  }

  /** Somebody has done something to this pull request. */
  changed(place: PullPlace): void {
    const pulls = this.#ports.pulls()
    if (!pulls.ok) return
    const isOfIt = ({ prUrl }: Run): boolean => {
      const found = prUrl === undefined ? undefined : pulls.value.placeOf(prUrl)
      // A code host spells a repository as it was made, a configuration as somebody typed it.
      return found?.number === place.number && sameName(found.remote, place.remote)
    }
    void this.#look(() => this.#recent().filter(isOfIt), 'person')
  }

  async #round(): Promise<void> {
    await this.#look(() => this.#unfinished(), 'background')
    if (!this.#isOver) this.start()
  }

  #recent(): Run[] {
    return this.#ports.runs.list({ limit: RUNS_SCANNED_MAX }).map((run) => this.#ports.newest(run.id) ?? run)
  }

  #unfinished(): Run[] {
    return this.#recent()
      .filter(({ prUrl, prState }) => prUrl !== undefined && prState !== 'merged' && prState !== 'closed')
      .slice(0, PULL_WATCH_RUNS_MAX)
  }

  /** Never rejects: nobody waits for it, and the next round comes whatever became of this one. */
  async #look(chosen: () => readonly Run[], urgency: Urgency): Promise<void> {
    try {
      const pulls = this.#ports.pulls()
      const runs = pulls.ok ? chosen() : []
      if (!pulls.ok || runs.length === 0) return
      const byRemote = groups(watchedOf(runs, pulls.value))
      const asked = [...byRemote].map(([remote, watched]) => this.#ask(pulls.value, remote, watched, urgency))
      await Promise.all(asked)
    } catch (error) {
      this.#ports.log.error({ err: error }, 'the pull requests of runs could not be looked at')
    }
  }

  async #ask(pulls: PullHost, remote: string, watched: readonly Watched[], urgency: Urgency): Promise<void> {
    const numbers = [...new Set(watched.map(({ place }) => place.number))]
    const states = await pulls.states(remote, numbers, urgency)
    if (this.#isOver) return
    if (!states.ok) {
      this.#ports.log.debug(
        { remote, reason: states.refusal.message },
        'pull requests could not be looked at',
      )
      return
    }
    for (const { run, url, place } of watched) {
      const state = states.value.get(place.number)
      if (state !== undefined && state !== run.prState) this.#ports.observed(run.id, url, state)
    }
  }
}

function watchedOf(runs: readonly Run[], pulls: PullHost): Watched[] {
  return runs.flatMap((run) => {
    const url = run.prUrl
    const place = url === undefined ? undefined : pulls.placeOf(url)
    return url === undefined || place === undefined ? [] : [{ run, url, place }]
  })
}

function groups(all: readonly Watched[]): Map<string, Watched[]> {
  const byRemote = new Map<string, Watched[]>()
  for (const one of all) {
    const group = byRemote.get(one.place.remote)
    if (group === undefined) byRemote.set(one.place.remote, [one])
    else group.push(one)
  }
  return byRemote
}
