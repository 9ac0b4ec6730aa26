/**
 * PullConfirmer asks the code host whether the pull request that a worker reported is the run's.
 *
 * A run is asked about as soon as its worker names a pull request, and again with backoff until the code host answers,
 * across restarts too. A run that waits in the queue for the answer shows why, and fails after `PULL_ANSWER_MS_MAX`.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Cancel } from '../../core/ports/clock.ts'
import type { PullIdentity } from '../../core/ports/code-host.ts'
import { no, type Result, SERVICE_FAILED } from '../../core/result.ts'
import {
  confirmPull,
  dropPull,
  findPullMismatch,
  isOpenedByRun,
  isSamePull,
} from '../../core/run/run-pull.ts'
import type { Run, RunPull } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import type { ModuleViews } from '../runtime/module.ts'
import { type PullAnswerEvent, RUN, type RunContext } from './run.machine.ts'

/** Pauses between two questions whether a pull request is the run's, and how many are asked at once. */
const PULL_CONFIRM_RETRY_MS_FIRST = 2_000
const PULL_CONFIRM_RETRY_MS_MAX = 2 * 60_000
const PULLS_CONFIRMED_AT_ONCE = 4
/** A run whose worker is lost waits this long for the code host to confirm its pull request, and then fails. */
export const PULL_ANSWER_MS_MAX = 60 * 60_000

/** How many of the latest runs are searched for unconfirmed pull requests after a start. */
const RUNS_SCANNED_MAX = 2_000
/** A new pull request may be missing from the code host's answers for a moment. */
const UNKNOWN_ANSWERS_MAX = 3

interface Question {
  readonly runId: string
  /** The address that the worker reported. */
  readonly url: string
  failures: number
  unknownAnswers: number
  /** The code host is answering now. */
  isAsking: boolean
  /** Called when the code host has answered, or could not be asked. */
  readonly onAsked: (() => void)[]
  cancelRetry: Cancel
}

type ConfirmerModules = Pick<ModuleViews, 'runRecords' | 'runs' | 'jobs' | 'leases' | 'workers'>

export class PullConfirmer {
  readonly #context: HostContext
  readonly #modules: ConfirmerModules
  readonly #questions = new Map<string, Question>()
  #waiting: Question[] = []
  #running = 0
  #isStarted = false

  constructor(context: HostContext, modules: ConfirmerModules) {
    this.#context = context
    this.#modules = modules
  }

  get size(): number {
    return this.#questions.size
  }

  /** Asks about every active or recent run whose pull request an earlier process left unconfirmed. */
  start(): void {
    this.#isStarted = true
    // A run that waits in the queue for the answer leaves the queue only through a question, however old the run is.
    for (const id of this.#context.system.keys(RUN)) this.consider(id)
    for (const { id } of this.#context.store.database.runs.list({ limit: RUNS_SCANNED_MAX }))
      this.consider(id)
  }

  stop(): void {
    this.#isStarted = false
    for (const question of this.#questions.values()) endAsking(question)
    this.#questions.clear()
    this.#waiting = []
  }

  /** Asks all open questions again now, because the code host may be another one. */
  onCodeHostChanged(): void {
    for (const question of this.#questions.values()) this.#enqueue(question)
  }

  /** Asks the code host when the run's pull request has no answer yet. Returns at once. */
  consider(runId: string): void {
    if (!this.#isStarted) return
    const url = this.#unansweredUrl(runId)
    const asked = this.#questions.get(runId)
    if (asked?.url === url) return
    if (asked !== undefined) endAsking(asked)
    this.#questions.delete(runId)
    if (url === undefined) return
    const question: Question = {
      runId,
      url,
      failures: 0,
      unknownAnswers: 0,
      isAsking: false,
      onAsked: [],
      cancelRetry: () => {},
    }
    this.#questions.set(runId, question)
    this.#enqueue(question)
  }

  /** Asks now, and resolves when the code host has answered or could not be asked. */
  async confirm(runId: string): Promise<void> {
    this.consider(runId)
    const question = this.#questions.get(runId)
    if (question === undefined) return
    const asked = new Promise<void>((resolve) => question.onAsked.push(resolve))
    if (!question.isAsking) this.#enqueue(question)
    await asked
  }

  #unansweredUrl(runId: string): string | undefined {
    const run = this.#modules.runs.latest(runId)
    const context = this.#contextOf(runId)
    const isUnadoptable = context?.job === 'run' && context.opened && context.opener === null
    return isUnadoptable || run?.pull?.confirmed === false ? run?.prUrl : undefined
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  /** A question that the code host is answering waits for that answer, so each question has one retry at most. */
  #enqueue(question: Question): void {
    if (this.#waiting.includes(question)) return
    this.#waiting.push(question)
    this.#askNext()
  }

  #askNext(): void {
    while (this.#isStarted && this.#running < PULLS_CONFIRMED_AT_ONCE) {
      const question = this.#waiting.find(({ isAsking }) => !isAsking)
      if (question === undefined) return
      this.#waiting = this.#waiting.filter((waiting) => waiting !== question)
      if (this.#isOpen(question)) void this.#ask(question)
    }
  }

  #isOpen(question: Question): boolean {
    return this.#questions.get(question.runId) === question
  }

  async #ask(question: Question): Promise<void> {
    this.#running += 1
    question.isAsking = true
    question.cancelRetry()
    const pull = this.#pullOf(question)
    const identity = pull.ok ? await this.#fetch(question, pull.value) : pull
    question.isAsking = false
    this.#running -= 1
    if (this.#isStarted && this.#isOpen(question)) this.#onAnswer(question, pull, identity)
    notifyAsked(question)
    this.#askNext()
  }

  #pullOf({ runId }: Question): Result<RunPull> {
    const run = this.#modules.runs.latest(runId)
    if (run === undefined) return no('unavailable', 'the run is no more')
    return this.#modules.jobs.runPulls.reported({ run, place: this.#contextOf(runId)?.place ?? null })
  }

  async #fetch({ url }: Question, { remote, number }: RunPull): Promise<Result<PullIdentity>> {
    try {
      const codeHost = this.#context.pullRequestApi()
      if (!codeHost.ok) return codeHost
      const place = codeHost.value.parseUrl(url)
      if (place === undefined || !isSamePull(place, { remote, number }))
        return no('invalid', 'it is not at the code host that is connected now')
      return await codeHost.value.identity({ remote, number })
    } catch (error) {
      this.#context.log.error({ url, err: error }, 'a pull request could not be confirmed')
      return no('failed', SERVICE_FAILED)
    }
  }

  // ---- answers -----------------------------------------------------------------------------------------------------

  #onAnswer(question: Question, pull: Result<RunPull>, identity: Result<PullIdentity>): void {
    if (!pull.ok) this.#onUnanswered(question, pull.refusal.message)
    else if (identity.ok) this.#judge(question, pull.value, identity.value)
    else if (identity.refusal.kind === 'unknown' && ++question.unknownAnswers >= UNKNOWN_ANSWERS_MAX)
      this.#settle(question, { ...this.#answer(question), type: 'pull refuted', reason: UNKNOWN_PULL })
    else this.#onUnanswered(question, identity.refusal.message)
  }

  #judge(question: Question, pull: RunPull, identity: PullIdentity): void {
    const { runId } = question
    const mismatch = findPullMismatch(pull, identity)
    if (mismatch !== undefined) {
      this.#settle(question, { ...this.#answer(question), type: 'pull refuted', reason: mismatch })
      return
    }
    const isOwn = isOpenedByRun(runId, identity, (leaseId) => this.#isLeaseOf(runId, leaseId))
    const { url, state } = identity
    const opener = isOwn ? 'run' : 'other'
    this.#settle(question, { ...this.#answer(question), type: 'pull confirmed', pull, url, state, opener })
  }

  #settle(question: Question, event: PullAnswerEvent): void {
    question.cancelRetry()
    this.#questions.delete(question.runId)
    this.#apply(question.runId, event)
  }

  #onUnanswered(question: Question, reason: string): void {
    const { clock, random, log } = this.#context
    const { runId } = question
    log.debug({ run: runId, reason }, 'the pull request of a run cannot be confirmed')
    question.failures += 1
    const waitMs = backoffMs(
      question.failures,
      PULL_CONFIRM_RETRY_MS_FIRST,
      PULL_CONFIRM_RETRY_MS_MAX,
      random.fraction(),
    )
    question.cancelRetry()
    question.cancelRetry = clock.after(waitMs, () => this.#enqueue(question))
    const adoption = this.#contextOf(runId)?.adoption ?? null
    if (adoption === null) return
    if (clock.now() - Date.parse(adoption.since) >= PULL_ANSWER_MS_MAX)
      this.#settle(question, {
        ...this.#answer(question),
        type: 'pull answer overdue',
        reason: overdue(reason),
      })
    else if (reason !== adoption.reason)
      this.#apply(runId, { ...this.#answer(question), type: 'pull unanswered', reason })
  }

  /** A dropped address stands in the run's log, whether the run is active or finished. */
  #apply(runId: string, event: PullAnswerEvent): void {
    const { runs, runRecords } = this.#modules
    const { publish } = this.#context
    const before = runs.latest(runId)
    // The run may have another pull request by now.
    if (before === undefined || before.prUrl !== event.asked) return
    if (event.type === 'pull refuted') {
      const text = `the pull request ${event.asked} was not kept: ${event.reason}`
      runRecords.eventLog.appendText(runId, event.at, text)
    }
    if (!runs.send(runId, event)) this.#updateFinishedRun(before, event)
    if (event.type === 'pull confirmed' && before.pull?.confirmed !== true)
      publish({ view: 'pull confirmed', key: runId })
    publish({ view: 'wait reason', key: runId })
  }

  #updateFinishedRun(run: Run, event: PullAnswerEvent): void {
    const { finishedRuns } = this.#modules.runRecords
    if (event.type === 'pull confirmed') finishedRuns.update(confirmPull(run, event.pull, event))
    if (event.type === 'pull refuted') finishedRuns.update(dropPull(run))
  }

  /** The state of a run that is queued or with a worker. */
  #contextOf(runId: string): RunContext | undefined {
    return this.#context.system.peek(RUN, runId)?.context
  }

  #isLeaseOf(runId: string, leaseId: string): boolean {
    const { workers, leases } = this.#modules
    return (workers.registry.lease(leaseId)?.runId ?? leases.endedLeases.runOf(leaseId)) === runId
  }

  #answer({ url }: Question) {
    return { at: this.#context.instant(), asked: url }
  }
}

function notifyAsked({ onAsked }: Question): void {
  for (const resolve of onAsked.splice(0)) resolve()
}

function endAsking(question: Question): void {
  question.cancelRetry()
  notifyAsked(question)
}

const UNKNOWN_PULL = 'there is no such pull request at the code host'

const overdue = (reason: string): string =>
  `its worker was lost after it had opened a pull request, and the code host could not be asked about it: ${reason}; retry the run once the code host answers`
