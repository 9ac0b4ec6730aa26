/**
 * Adds up runs, one at a time: how many a filter finds, which failures are equal, and what the runs differ in.
 *
 * A run that has changed is put in again and counts once.
 */
import { RUN_SUMMARY_NAMES_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import { type AgentSettings, agentOf } from '../../protocol/run-agent.ts'
import { createRunFilter, failureOf, type RunFilter } from '../../protocol/run-filter.ts'
import type { RunSummary } from '../../protocol/run-query.ts'

interface EqualFailures {
  readonly failure: string
  readonly error: string
  count: number
}

export class RunSummarizer {
  readonly #fits: (run: Run) => boolean
  readonly #settings: AgentSettings
  readonly #failures = new Map<string, EqualFailures>()
  readonly #repos = new Set<string>()
  readonly #agents = new Set<string>()
  readonly #workers = new Set<string>()
  /** The runs that fit, each with its failure. */
  readonly #fitting = new Map<string, string | undefined>()

  constructor(filter: RunFilter, settings: AgentSettings) {
    this.#fits = createRunFilter(filter, settings)
    this.#settings = settings
  }

  put(run: Run): void {
    if (run.ticket.repo !== undefined) this.#repos.add(run.ticket.repo)
    this.#agents.add(agentOf(run, this.#settings))
    if (run.sandbox.workerName !== undefined) this.#workers.add(run.sandbox.workerName)
    this.#takeOut(run.id)
    if (!this.#fits(run)) return
    const failure = failureOf(run)
    this.#fitting.set(run.id, failure)
    if (failure === undefined) return
    const equal = this.#failures.get(failure) ?? { failure, error: run.error ?? '', count: 0 }
    equal.count += 1
    this.#failures.set(failure, equal)
  }

  #takeOut(runId: string): void {
    const failure = this.#fitting.get(runId)
    this.#fitting.delete(runId)
    const equal = failure === undefined ? undefined : this.#failures.get(failure)
    if (equal === undefined) return
    equal.count -= 1
    if (equal.count === 0) this.#failures.delete(equal.failure)
  }

  summary(): RunSummary {
    const repeated = [...this.#failures.values()].filter(({ count }) => count > 1)
    return {
      count: this.#fitting.size,
      failures: repeated.sort((a, b) => b.count - a.count).slice(0, RUN_SUMMARY_NAMES_MAX),
      repos: listed(this.#repos),
      agents: listed(this.#agents),
      workers: listed(this.#workers),
    }
  }
}

const listed = (names: ReadonlySet<string>): string[] => [...names].sort().slice(0, RUN_SUMMARY_NAMES_MAX)
