/**
 * SimExecutor runs a daemon's jobs without agents and sandboxes: executions take time, send reports, open a pull
 * request and stop on request. SimExecutor keeps exactly the promises of the executor's contract.
 *
 * A follow-up pushes once and posts one summary: it first checks what an earlier execution did. Finished work of a run
 * stays in its sandbox until the code host takes it.
 *
 * Each report has an id (`<lease> <ordinal>`), so that the host's disk shows which reports were applied.
 */
import type { HostClock } from '../../actors/daemon/host-clock.ts'
import type {
  AgentOutcome,
  DispatchRefusal,
  EndedExecution,
  Execution,
  ExecutionReport,
  ExecutionReporter,
  ExecutionRequest,
  Executor,
  Progress,
  StopRequest,
} from '../../core/daemon/ports.ts'
import type { BootedSandbox, BootRequest } from '../../core/daemon/terminal.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import type { ExpiredSandbox, Job, JobFollowUp, RunOutcome } from '../../protocol/frames.ts'
import type { RunSandbox } from '../../protocol/run-sandbox.ts'
import type { Random } from '../support/random.ts'
import type { WorkerPlan } from './plan.ts'
import { type BootObserver, isUnpushed, SandboxBoots, type SandboxDisk } from './sandbox-boots.ts'
import type { SimCodehost } from './sim-codehost.ts'
import { type DaemonExecution, executionCost, usageEntry } from './sim-worker.ts'
import type { Process } from './timeline.ts'

export interface ExecutorObserver extends BootObserver {
  onExecutionStarted(execution: DaemonExecution): void
  onExecutionStopped(execution: DaemonExecution): void
  onReport(execution: DaemonExecution, report: ExecutionReport): void
  onStopRequested(execution: DaemonExecution, request: StopRequest): void
  onAgentStarted(execution: DaemonExecution): void
  onPublished(execution: DaemonExecution): void
  /** A follow-up pushed or posted its summary. */
  onFollowUpStep(execution: DaemonExecution, followUpId: string): void
  onSandboxDiscarded(runId: string): void
  /** The search for reclaimable sandboxes began. */
  onReclaim(isClaimed: (runId: string) => boolean): void
  onSandboxReclaimed(runId: string): void
}

export interface SimExecutorOptions {
  readonly plan: WorkerPlan
  readonly clock: Clock
  readonly hostClock: HostClock
  readonly process: Process
  readonly random: Random
  readonly observer: ExecutorObserver
  readonly codehost: SimCodehost
  readonly sandboxes: SandboxDisk
  /** The current true time. */
  readonly now: () => number
  readonly sessionOf: (runId: string) => string | undefined
  /** Whether an execution of the run is alive in this process. */
  readonly isExecuted: (runId: string) => boolean
  /** The true time at which a lease runs out for its worker, computed from the frames that were exchanged. */
  readonly stopAt: (leaseId: string) => number
  /** Whether the worker declines nothing any more. */
  readonly acceptsAll: () => boolean
}

/** The reason with which a run is given back; it concerns no other run. */
export const GIVEN_BACK_REASON = 'the branch has no valid name'
/** Tries to push to a branch that others push to as well. */
const PUSH_TRIES_MAX = 3
/** The tokens that every execution spends once its agent has started. */
export const SPENT_TOKENS = 1_000
/** Longer than the daemon waits for an answer. */
const SLOW_REFUSAL_MS = 6_000
const REFUSALS: readonly DispatchRefusal[] = [
  'sandbox: it does not start',
  'disk: 200 MB free',
  'busy: for no reason',
]

export class SimExecutor implements Executor {
  readonly #options: SimExecutorOptions
  readonly #boots: SandboxBoots

  constructor(options: SimExecutorOptions) {
    this.#options = options
    this.#boots = new SandboxBoots({ ...options, worker: options.plan.id })
  }

  async refusalOf(_: Job, isClaimed: (runId: string) => boolean): Promise<DispatchRefusal | undefined> {
    const { random, plan, observer, acceptsAll: isContent } = this.#options
    // A worker with a full disk looks for sandboxes to discard.
    observer.onReclaim(isClaimed)
    if (random.chance(0.3)) await this.#sleep(random.chance(0.02) ? SLOW_REFUSAL_MS : 200)
    return isContent() || !random.chance(plan.declineShare) ? undefined : random.pick(REFUSALS)
  }

  start(
    request: ExecutionRequest,
    reporter: ExecutionReporter,
    progressed: (progress: Progress) => void,
  ): Execution {
    const record = this.#options.sandboxes.markInUse(request.job.run.id)
    if (request.job.kind !== 'publish') record.isUnpublished = false
    return new SimExecution(this.#options, request, reporter, progressed)
  }

  async recover({ leaseId, runId }: EndedExecution) {
    const { random, sandboxes } = this.#options
    await this.#sleep(random.fraction() * 2_000)
    const spentBy = sandboxes.records.get(runId)?.spentBy
    const spent = spentBy !== leaseId ? {} : { costs: [executionCost(spentBy, SPENT_TOKENS)] }
    const { isUnpublished } = { isUnpublished: false, ...sandboxes.records.get(runId) }
    if ((random.chance(0.5) && !isUnpublished) || !sandboxes.records.has(runId)) return spent
    return { ...spent, sandbox: retainSandbox(this.#options, runId) }
  }

  boot(request: BootRequest): Promise<Result<BootedSandbox>> {
    return this.#boots.boot(request)
  }

  async discard(runId: string): Promise<void> {
    this.#options.observer.onSandboxDiscarded(runId)
    this.#options.sandboxes.records.delete(runId)
  }

  async reclaim(isClaimed: (runId: string) => boolean): Promise<readonly ExpiredSandbox[]> {
    const { hostClock, isExecuted, random, sandboxes, observer } = this.#options
    await this.#sleep(random.fraction() * 200)
    observer.onReclaim(isClaimed)
    const expired: ExpiredSandbox[] = []
    for (const { runId, until = 0 } of [...sandboxes.records.values()]) {
      if (isExecuted(runId) || isClaimed(runId) || until > hostClock.now()) continue
      if (isUnpushed(runId) || !hostClock.isConfirmed()) {
        expired.push({ runId, retainedUntil: new Date(until).toISOString() })
        continue
      }
      // An observer still finds the sandbox.
      observer.onSandboxReclaimed(runId)
      sandboxes.records.delete(runId)
    }
    return expired
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#options.clock.after(ms, resolve))
  }
}

/** Most sandboxes are kept longer than the simulation lasts; some are reclaimed while people use them. */
const RETAINED_MS = 72 * 3_600_000
const RETAINED_MS_MIN = 60_000
const RETAINED_MS_MAX = 40 * 60_000

/** Keeps the sandbox for a random time from now on; zero hours: not at all. */
function retainSandbox(
  { hostClock, now, random, sandboxes }: SimExecutorOptions,
  runId: string,
  retentionHours?: number,
): RunSandbox {
  const ms =
    retentionHours === 0
      ? 0
      : random.chance(0.6)
        ? RETAINED_MS
        : RETAINED_MS_MIN + random.fraction() * (RETAINED_MS_MAX - RETAINED_MS_MIN)
  const until = hostClock.now() + ms
  const record = sandboxes.markInUse(runId)
  record.until = until
  record.dueAt = now() + ms
  const unpublished = record.isUnpublished === true ? { unpublished: true } : {}
  return {
    provider: 'bwrap',
    id: `sb-${runId}`,
    retainedUntil: new Date(until).toISOString(),
    ...unpublished,
  }
}

const GIVEN_BACK: Refused = {
  ok: false,
  refusal: { kind: 'invalid', message: `${GIVEN_BACK_REASON}: rename it`, failure: 'configuration' },
}

interface TimedAct {
  readonly at: number
  readonly act: () => void
}

class SimExecution implements Execution, DaemonExecution {
  readonly leaseId: string
  readonly runId: string
  readonly remote: string
  readonly publishesOnly: boolean
  killed = false
  readonly #options: SimExecutorOptions
  readonly #reporter: ExecutionReporter
  readonly #onProgress: (progress: Progress) => void
  readonly #pullUrl: string | undefined
  readonly #followUp: JobFollowUp | undefined
  readonly #exited: Promise<void>
  #resolveExited: () => void = () => {}
  #isExiting = false
  #isInterrupted = false
  #endPause: () => void = () => {}
  #reportCount = 0
  readonly #workerId: string
  readonly #retentionHours: number
  #hasSpent = false
  #sessionId: string | undefined

  constructor(
    options: SimExecutorOptions,
    { leaseId, workerId, job }: ExecutionRequest,
    reporter: ExecutionReporter,
    progressed: (progress: Progress) => void,
  ) {
    this.#options = options
    this.leaseId = leaseId
    this.#workerId = workerId
    this.runId = job.run.id
    this.remote = job.repo.remote
    this.#reporter = reporter
    this.#onProgress = progressed
    this.#followUp = job.followUp
    this.#retentionHours = job.retentionHours
    this.publishesOnly = job.kind === 'publish'
    this.#pullUrl =
      this.publishesOnly || options.random.chance(0.6) || job.followUp !== undefined
        ? options.codehost.pullOf(this.runId, { branch: job.branch, leaseId })
        : undefined
    this.#exited = new Promise((resolve) => {
      this.#resolveExited = resolve
    })
    options.observer.onExecutionStarted(this)
  }

  get worker(): string {
    return this.#options.plan.id
  }

  get process(): Process {
    return this.#options.process
  }

  get stopAt(): number {
    return this.#options.stopAt(this.leaseId)
  }

  async prepare(): Promise<Result<Progress>> {
    const { random } = this.#options
    await this.#pause(200 + random.fraction() * 8_000)
    if (this.#isStopping) return no('failed', 'it was stopped')
    if (this.publishesOnly) {
      const isThere = this.#options.sandboxes.records.get(this.runId)?.isUnpublished === true
      return isThere ? yes({ sandbox: { id: `sb-${this.runId}` } }) : no('gone', 'the finished work is gone')
    }
    if (random.chance(0.02)) return no('failed', 'the branch is gone')
    if (random.chance(0.03) && !this.#options.acceptsAll()) return GIVEN_BACK
    return yes({ sandbox: { id: `sb-${this.runId}` } })
  }

  async runAgent(): Promise<AgentOutcome> {
    const { random, sandboxes } = this.#options
    if (this.#isStopping) return { verdict: 'stopped', reason: 'it was stopped' }
    if (this.publishesOnly) return { verdict: 'done' }
    this.#options.observer.onAgentStarted(this)
    let before = 0
    for (const { at, act } of this.#script()) {
      await this.#pause(at - before)
      before = at
      if (this.#isStopping) return { verdict: 'stopped', reason: 'it was stopped' }
      if (at > 0 && !this.#hasSpent) {
        sandboxes.recordSpending({ leaseId: this.leaseId, runId: this.runId, workerId: this.#workerId })
        this.#hasSpent = true
      }
      if (random.chance(0.2)) await this.#reporter.waitForCapacity()
      act()
    }
    return random.chance(0.1) ? { verdict: 'failed', reason: 'the agent gave up' } : { verdict: 'done' }
  }

  async finish({ verdict, reason, failure }: AgentOutcome): Promise<RunOutcome> {
    const { random, sandboxes } = this.#options
    const costs = this.#hasSpent ? [executionCost(this.leaseId, SPENT_TOKENS)] : []
    // The costs are read from the disk, so a kill delays them and does not prevent them.
    await this.#pause(random.fraction() * 500)
    if (this.#hasSpent) this.#report(() => ({ is: 'patch', patch: { costs } }))
    if (!this.killed && !this.publishesOnly) {
      await this.#pause(random.fraction() * 2_000)
      this.#reportUsage(0)
      this.#reportSessionUsage()
      if (random.chance(0.3)) this.#reportMemories()
    }
    const pull = verdict === 'done' ? await this.#deliver() : {}
    this.#exitSoon()
    const isUnpublished = sandboxes.records.get(this.runId)?.isUnpublished === true
    const sandbox = retainSandbox(this.#options, this.runId, isUnpublished ? undefined : this.#retentionHours)
    if (isUnpublished)
      return { status: 'failed', failure: 'publish', error: 'the push was refused', costs, sandbox }
    if (verdict !== 'done') {
      const kind = failure === undefined ? {} : { failure }
      return { status: 'failed', error: reason ?? verdict, ...kind, costs, sandbox }
    }
    if (this.#followUp !== undefined && pull.prUrl === undefined)
      return { status: 'failed', error: 'it could not be pushed', costs, sandbox }
    return { status: 'completed', result: { artifacts: [], ...pull }, costs, sandbox }
  }

  stop(request: StopRequest): void {
    const { random, plan, clock, observer } = this.#options
    this.killed ||= request.how === 'kill'
    observer.onStopRequested(this, request)
    if (this.killed) this.#exitSoon()
    const interrupt = () => {
      this.#isInterrupted = true
      this.#endPause()
    }
    if (this.killed) interrupt()
    else clock.after(random.fraction() * plan.cancelMsMax, interrupt)
  }

  whenExited(): Promise<void> {
    return this.#exited
  }

  get #isStopping(): boolean {
    return this.#isInterrupted || this.killed
  }

  /** Waits; a stop ends the wait early. */
  #pause(ms: number): Promise<void> {
    if (this.#isStopping) return Promise.resolve()
    return new Promise((resolve) => {
      const enough = this.#options.clock.after(ms, resolve)
      this.#endPause = () => {
        enough()
        resolve()
      }
    })
  }

  /** Exits after the time that processes need, also after a kill. */
  #exitSoon(): void {
    if (this.#isExiting) return
    this.#isExiting = true
    const { random, plan, clock, observer } = this.#options
    clock.after(random.fraction() * plan.dyingMsMax, () => {
      observer.onExecutionStopped(this)
      this.#resolveExited()
    })
  }

  #deliver(): Promise<{ readonly prUrl?: string }> {
    const url = this.#pullUrl
    if (this.#followUp === undefined || url === undefined) return this.#publish()
    return this.#executeFollowUp(url, this.#followUp.id)
  }

  /** Reports the pull request only after all steps are done, because an interrupted follow-up starts again. */
  async #executeFollowUp(prUrl: string, id: string): Promise<{ readonly prUrl?: string }> {
    const { codehost, random } = this.#options
    for (let tries = 0; tries < PUSH_TRIES_MAX && !codehost.hasPushed(prUrl, id); tries++) {
      const head = codehost.headIndex(prUrl)
      await this.#pause(random.fraction() * 3_000)
      if (this.killed) return {}
      if (codehost.push(prUrl, head, id)) this.#options.observer.onFollowUpStep(this, id)
    }
    if (!codehost.hasPushed(prUrl, id)) return {}
    await this.#pause(random.fraction() * 3_000)
    if (this.killed) return {}
    if (codehost.countSummaries(prUrl, id) === 0) {
      codehost.addSummary(prUrl, id)
      this.#options.observer.onFollowUpStep(this, id)
    }
    this.#onProgress({ branch: `branch of ${prUrl}`, prUrl, prState: 'open' })
    await this.#pause(random.fraction() * 2_000)
    return { prUrl }
  }

  /** Counts as published when the request is sent: a request sent before a kill still arrives. */
  async #publish(): Promise<{ readonly prUrl?: string }> {
    const prUrl = this.#pullUrl
    const { codehost, random, sandboxes } = this.#options
    if (prUrl !== undefined) sandboxes.markInUse(this.runId).isUnpublished = true
    await this.#pause(random.fraction() * 4_000)
    if (this.killed || prUrl === undefined || !codehost.takesPushes) return {}
    sandboxes.markInUse(this.runId).isUnpublished = false
    this.#options.observer.onPublished(this)
    this.#onProgress({ branch: `switchyard/${this.runId}`, prUrl, prState: 'open' })
    await this.#pause(this.#options.random.fraction() * (this.#options.random.chance(0.3) ? 20_000 : 1_000))
    return { prUrl }
  }

  // ---- reports -----------------------------------------------------------------------------------------------------

  #script(): readonly TimedAct[] {
    const { random, plan } = this.#options
    const total = 4_000 * (plan.runMsMax / 4_000) ** random.fraction()
    const acts: TimedAct[] = []
    const add = (at: number, act: () => void) => void acts.push({ at: at * total, act })
    const anywhere = () => random.fraction()
    for (let n = random.below(plan.logLinesMax); n > 0; n--) add(anywhere(), () => this.#reportLog())
    for (let n = random.below(3); n > 0; n--) add(anywhere(), () => this.#reportUsage(random.below(3)))
    for (let n = random.below(3); n > 0; n--) this.#addArtifact(add, n)
    if (random.chance(0.3)) add(anywhere(), () => this.#reportMemories())
    // Sometimes more undroppable reports than the buffer may hold.
    const patches = random.chance(0.1) ? 40 : random.below(3)
    for (let n = patches; n > 0; n--) add(anywhere(), () => this.#reportSession())
    // Most agents report their session id.
    if (random.chance(0.8)) add(0, () => this.#reportSession())
    add(1, () => {})
    return acts.sort((a, b) => a.at - b.at)
  }

  #report(makeReport: (word: string, at: string) => ExecutionReport): void {
    const at = new Date(this.#options.clock.now()).toISOString()
    const report = makeReport(`${this.leaseId} ${++this.#reportCount}`, at)
    this.#options.observer.onReport(this, report)
    this.#reporter.report(report)
  }

  #reportLog(): void {
    this.#report((text, at) => ({ is: 'event', event: { type: 'log', at, stream: 'stdout', text } }))
  }

  #reportSession(): void {
    // Session ids contain no space.
    this.#report((word) => {
      this.#sessionId = word.replace(' ', '_')
      this.#options.sandboxes.markInUse(this.runId).sessionId = this.#sessionId
      return { is: 'patch', patch: { agentSessionId: this.#sessionId } }
    })
  }

  /**
   * Reports the session's usage when the execution ends: it separates the run's part from that of later sessions.
   */
  #reportSessionUsage(): void {
    const { sandboxes } = this.#options
    const sessionId = this.#sessionId
    if (sessionId === undefined) return
    this.#report((word, at) => {
      const { usage: log } = sandboxes.markInUse(this.runId)
      log.unshift({ subagent: false, entry: usageEntry(word, at), sessions: new Set() })
      for (const { sessions } of log) sessions.add(sessionId)
      const entries = log.filter((each) => !each.subagent).map(({ entry }) => entry)
      return { is: 'usage', snapshot: { projectKey: 'project', sessionId, entries } }
    })
  }

  #reportMemories(): void {
    this.#report((word) => ({ is: 'memories', facts: [`fact ${word}`] }))
  }

  /** @param subagent 0: the session itself; otherwise one of its subagents */
  #reportUsage(subagent: number): void {
    const whose = subagent === 0 ? {} : { subagentId: `agent-${subagent}` }
    const place = { projectKey: 'project', sessionId: `session-${this.leaseId}`, ...whose }
    this.#report((word, at) => ({ is: 'usage', snapshot: { ...place, entries: [usageEntry(word, at)] } }))
  }

  #addArtifact(add: (at: number, act: () => void) => void, number: number): void {
    const parts = 1 + this.#options.random.below(3)
    const begin = this.#options.random.fraction() * 0.9
    const name = `${this.leaseId}-${number}`
    for (let part = 0; part < parts; part++) {
      const final = part === parts - 1
      add(begin + part * 0.03, () =>
        this.#report((word) => ({
          is: 'artifact',
          name,
          part,
          final,
          data: Buffer.from(`${word};`).toString('base64'),
        })),
      )
    }
  }
}
