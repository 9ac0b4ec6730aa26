/**
 * `RunExecution` executes one run on this machine: checkout, setup, agent, outputs, publishing.
 *
 * Every command that touches the agent's tree runs inside the sandbox. The sandbox holds only the secrets that it
 * needs. After the lease is lost, nothing is pushed or posted any more. The daemon decides when each phase begins and
 * ends. The `WorkPlan` decides where the work begins and what is published (new run or follow-up).
 */
import type {
  AgentExecutionRequest,
  AgentOutcome,
  Execution,
  ExecutionReporter,
  Progress,
  StopRequest,
} from '../../core/daemon/ports.ts'
import { joinStopRequests } from '../../core/daemon/stop-request.ts'
import { createRedactor } from '../../core/redact-secrets.ts'
import { no, type Refusal, type Refused, type Result, yes } from '../../core/result.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import { bundleName } from '../../protocol/kept-bundle.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { RunPhase } from '../../protocol/run.ts'
import { truncateToChars } from '../../protocol/text-budget.ts'
import type { AgentExitReport } from '../agents/agent.ts'
import { openAgentFiles } from '../agents/agent-files.ts'
import { checkedCost } from '../agents/checked-cost.ts'
import { bestCost } from '../agents/cost.ts'
import type { ModelMeter } from '../model-api/meter.ts'
import { describeReachable, entriesOf } from '../registries/registry-hosts.ts'
import type { SandboxEgress } from '../sandbox/egress/sandbox-egress.ts'
import { createRunSecretSearch, explainFoundSecret, secretsOfJob } from '../secrets/run-secrets.ts'
import type { SecretSearch } from '../secrets/secret-search.ts'
import { hostsOfAgent } from './agent-access.ts'
import { AgentLaunch } from './agent-launch.ts'
import { explainRefusedCredential, type PreparedAgent, reportUsage } from './agent-start.ts'
import { AgentWatch } from './agent-watch.ts'
import { type CollectedOutputs, collectOutputs, sendBundle } from './collect-outputs.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { FinalizingTime } from './finalizing-time.ts'
import { FollowUpPlan } from './follow-up-plan.ts'
import { describeShortage } from './free-disk.ts'
import { NewRunPlan } from './new-run-plan.ts'
import { PhaseReporter } from './phase-reporter.ts'
import { describePublished, type OutcomeStatus, reasonText, statusOfPublishing } from './publish-outcome.ts'
import { QuotaWatch } from './quota-watch.ts'
import { isolationOf, sandboxAgentOf } from './sandbox-metadata.ts'
import { AFTER_AGENT, describeScriptFailure, SandboxSession } from './sandbox-session.ts'
import type { Sandboxes } from './sandboxes.ts'
import { reportTextArtifact } from './text-artifact.ts'
import { unpublishedWork } from './unpublished-work.ts'
import type { AgentRequest, PublishEnd, PublishedWork, WorkDue, WorkPlan } from './work-plan.ts'

export interface RunExecutionOptions {
  readonly dependencies: ExecutorDependencies
  readonly sandboxes: Sandboxes
  readonly request: AgentExecutionRequest
  readonly reporter: ExecutionReporter
  readonly onProgress: (progress: Progress) => void
  /** Called when every process of the execution has ended and only its disk is left. */
  readonly onGone: () => void
}

/** With less free disk than this, the agent is stopped before the whole machine runs out of space. */
const FREE_BYTES_MIN = 256 * 1024 * 1024
/** The host waits 15 s for a cancelled run to end, and the agent may use most of them. */
const STOPPED_OUTPUTS_MS_MAX = 2_000
/** Explains why a setup script that works on a developer's machine may fail in the sandbox. */
const SUMMARY = 'the agent’s last message'
const NO_OUTPUTS: CollectedOutputs = { artifacts: [], facts: [], leftOut: [] }

export class RunExecution implements Execution {
  readonly #options: RunExecutionOptions
  readonly #reporter: PhaseReporter
  readonly #plan: WorkPlan
  readonly #abort = new AbortController()
  /** Aborted when not even a step that follows a push (such as the comment) may be completed. */
  readonly #finalAbort = new AbortController()
  #stopRequest: StopRequest | undefined
  #session: SandboxSession | undefined
  #egress: SandboxEgress | undefined
  /** The hosts of code host and registries, which a resumed sandbox reaches too. */
  #derivedHosts: readonly string[] = []
  #agentWatch: AgentWatch | undefined
  #quotaWatch: QuotaWatch | undefined
  readonly #launch: AgentLaunch
  #meter: ModelMeter | undefined
  #isCheckedOut = false
  #agentRequest: AgentRequest | undefined
  #preparedAgent: PreparedAgent | undefined
  /** The instant at which the agent resumed an existing session; usage before it belongs to earlier executions. */
  #resumedSince: string | undefined
  #exitReport: AgentExitReport | undefined
  #sessionId: string | undefined
  readonly #search: SecretSearch
  readonly #time: FinalizingTime
  #currentPhase: Promise<unknown> = Promise.resolve()
  #isRetained = false
  #isWorkRemembered = false
  /** The sandbox of an earlier execution may hold finished work whose note cannot be read, so it stays as it is. */
  #isSandboxUntouched = false
  #agentArtifacts: readonly string[] = []
  readonly #ownArtifacts: string[] = []

  constructor(options: RunExecutionOptions) {
    this.#reporter = new PhaseReporter(options.reporter)
    this.#options = { ...options, reporter: this.#reporter }
    this.#plan = createPlan(options)
    const { dependencies, request } = options
    this.#time = new FinalizingTime(dependencies.clock, dependencies.finalizingMs)
    this.#launch = new AgentLaunch({
      dependencies,
      job: request.job,
      onSpent: (costUsd) => this.#agentWatch?.recordCost(costUsd),
      onExhausted: (reason) => this.#agentWatch?.endForBudget(reason),
    })
    this.#search = createRunSecretSearch(options.request.job, options.dependencies.ownSecrets)
  }

  // ---- the phases ------------------------------------------------------------------------------------------------

  prepare(): Promise<Result<Progress>> {
    return this.#runPhase(
      async () => {
        const opened = await this.#openSession()
        if (!opened.ok) return this.#leaveUntouched(opened)
        const session = opened.value
        const checked = await this.#plan.checkOut(session, this.#abort.signal, (agentRequest) =>
          this.#launchEarly(session, agentRequest),
        )
        if (!checked.ok && checked.refusal.failure === 'publish') return this.#leaveUntouched(checked)
        if (!checked.ok) return this.#stopRequest === undefined ? checked : this.#stoppedResult()
        this.#isCheckedOut = true
        this.#openNetwork(session)
        this.#agentRequest = this.#plan.agentRequest()
        const failed = this.#agentRequest === undefined ? undefined : await this.#runSetup(session)
        if (failed !== undefined) return failed
        return this.#stopRequest === undefined
          ? yes({ sandbox: this.#sandboxReference() })
          : this.#stoppedResult()
      },
      (reason) => no('failed', reason),
    )
  }

  runAgent(): Promise<AgentOutcome> {
    return this.#runPhase(
      async () => {
        const session = this.#session
        if (session === undefined || this.#stopRequest !== undefined) return this.#stoppedOutcome()
        this.#reporter.phase = 'agent'
        const agentRequest = this.#agentRequest
        if (agentRequest === undefined) return { verdict: 'done' }
        await this.#orFallback(unpublishedWork.reserve(session.folders), () => undefined)
        const launched = await this.#launch.take(session, agentRequest)
        if (!launched.ok) return failedBy(launched.refusal)
        const { prepared, access, meter, held } = launched.value
        if (held === undefined) return this.#stoppedOutcome()
        this.#preparedAgent = prepared
        this.#meter = meter
        if (agentRequest.resume !== undefined) this.#resumedSince = this.#instant()
        this.#recordAgent(prepared)
        const { dependencies, request, reporter } = this.#options
        this.#agentWatch = new AgentWatch({
          process: held.process,
          listener: prepared.listener,
          reporter,
          clock: dependencies.clock,
          log: dependencies.log,
          limits: request.job.limits,
          stallMs: dependencies.stallMs,
          findMachineProblem: () => this.#findMachineProblem(),
          isModelBusy: () => meter?.isIdle() === false,
          onSessionId: (id) => this.#onSessionId(id),
        })
        held.begin()
        if (this.#stopRequest !== undefined) this.#endAgent(this.#stopRequest)
        const { agentOutcome, exitReport } = await this.#agentWatch.waitForEnd()
        this.#agentWatch = undefined
        this.#exitReport = exitReport
        // The worker remembers the end before it tells anybody: a worker that dies now never has the agent paid again.
        if (agentOutcome.verdict === 'done') await this.#rememberWork(session, { areOutputsDue: true })
        await access.close()
        return this.#explainCredential(agentOutcome)
      },
      (reason) => ({ verdict: 'failed', reason }),
    )
  }

  finish(agentOutcome: AgentOutcome): Promise<RunOutcome> {
    return this.#runPhase(
      async () => {
        this.#reporter.phase = 'publish'
        await this.#launch.discard()
        const costs = await this.#time.measure(() => this.#reportSpending())
        const collected = this.#time.measure(() => this.#collectOutputs())
        const outputs = await this.#orFallback(collected, () => NO_OUTPUTS)
        this.#agentArtifacts = outputs.artifacts
        const judged = this.#judgeSecrets(agentOutcome, outputs)
        if (judged !== agentOutcome && this.#isWorkRemembered && this.#session !== undefined)
          await unpublishedWork.forget(this.#session.folders)
        const end = await this.#orFallback(this.#publishWork(judged), unexpectedEnd)
        return await this.#buildOutcome(judged, costs, outputs, end)
      },
      (reason) => ({ status: 'failed', error: reason, costs: [] }),
    )
  }

  stop(later: StopRequest): void {
    const request = joinStopRequests(this.#stopRequest, later)
    if (request === undefined) return
    // The first reason stays: it says why the run ends.
    this.#stopRequest = { ...request, reason: this.#stopRequest?.reason ?? request.reason }
    this.#abort.abort()
    if (request.how === 'kill' || request.leaseLost === true) this.#finalAbort.abort()
    if (this.#agentWatch !== undefined) this.#endAgent(request)
    if (request.how === 'kill' || this.#agentWatch === undefined) this.#session?.stop()
  }

  async whenExited(): Promise<void> {
    await this.#currentPhase
    await this.#launch.discard()
    await this.#session?.close()
    // The execution was abandoned, and there is nothing in which another attempt could go on.
    if (!this.#isRetained && !this.#plan.hasRetainedSandbox())
      await this.#options.sandboxes.discard(this.#options.request.job.run.id)
    this.#options.onGone()
  }

  // ---- preparing -------------------------------------------------------------------------------------------------

  /** Another execution publishes the work as soon as its note can be read. */
  #leaveUntouched(refused: Refused): Refused {
    this.#isSandboxUntouched = true
    this.#isRetained = true
    return this.#stopRequest === undefined ? refused : this.#stoppedResult()
  }

  async #openSession(): Promise<Result<SandboxSession>> {
    const { dependencies, request, reporter } = this.#options
    const { job } = request
    const opened = await this.#plan.openFolders()
    if (!opened.ok) return opened
    const folders = opened.value
    this.#quotaWatch = await this.#watchQuota(folders.root)
    // The egress proxy reports configuration problems while it opens, before the session can log them.
    const earlyLines: string[] = []
    const egress = await dependencies.openEgress({
      network: job.sandbox?.network ?? 'none',
      allowedHosts: job.sandbox?.allowedHosts ?? [],
      folder: folders.root,
      ...(dependencies.isRoot ? { owner: dependencies.userFor(folders.number) } : {}),
      clock: dependencies.clock,
      log: (line) => (this.#session === undefined ? earlyLines.push(line) : this.#session.log(line)),
    })
    this.#egress = egress
    const redact = createRedactor(secretsOfJob(job).map(({ value }) => value))
    const session = new SandboxSession({ dependencies, job, folders, egress, reporter, redact })
    this.#session = session
    for (const line of earlyLines) session.log(line)
    if (this.#stopRequest !== undefined) session.stop()
    this.#options.onProgress({ sandbox: this.#sandboxReference(), branch: job.branch })
    return yes(session)
  }

  async #watchQuota(folder: string): Promise<QuotaWatch> {
    const { dependencies, request } = this.#options
    const { clock, measureFolder, freeSpace, diskBytes } = dependencies
    return new QuotaWatch({
      folder,
      quotaGib: request.job.sandbox?.diskQuotaGib,
      diskBytes: await diskBytes(),
      free: await freeSpace(),
      clock,
      measure: measureFolder,
    })
  }

  /** The checkout needs no network of the sandbox, so the hosts are known before a program uses it. */
  #openNetwork(session: SandboxSession): void {
    const { agent, credentials, sandbox } = this.#options.request.job
    const reachable = this.#plan.reachableHosts()
    if (reachable === undefined) return
    const model = hostsOfAgent(agent.provider, credentials).map((host) => ({ host, from: 'agent' }))
    const hosts = [...reachable.hosts, ...model]
    this.#derivedHosts = entriesOf(reachable.hosts)
    this.#egress?.allow(entriesOf(hosts))
    session.log([describeReachable(hosts, sandbox?.allowedHosts ?? []), ...reachable.leftOut].join('\n'))
  }

  /** A repository's own scripts run before the agent, and not beside its sandbox. */
  #launchEarly(session: SandboxSession, agentRequest: AgentRequest): void {
    const { setup, hooks } = this.#options.request.job.repo
    if (isBlank(setup) && isBlank(hooks?.beforeAgent)) this.#launch.startEarly(session, agentRequest)
  }

  async #runSetup(session: SandboxSession): Promise<Result<never> | undefined> {
    const { setup, hooks } = this.#options.request.job.repo
    const rule = this.#plan.setupRule()
    const failed = rule === 'skip' ? undefined : await this.#runScript(session, 'setup', 'setup', setup)
    if (failed !== undefined && (rule === 'required' || this.#stopRequest !== undefined)) return failed
    return this.#runScript(session, 'hook', 'hook beforeAgent', hooks?.beforeAgent)
  }

  async #runScript(
    session: SandboxSession,
    phase: RunPhase,
    name: string,
    text = '',
    signal?: AbortSignal,
  ): Promise<Result<never> | undefined> {
    if (isBlank(text)) return undefined
    const before = this.#reporter.phase
    this.#reporter.phase = phase
    const end = await session.runScript(text, signal)
    this.#reporter.phase = before
    if (end.code === 0) return undefined
    return this.#stopRequest === undefined
      ? no('failed', describeScriptFailure(name, end, this.#options.request.job.sandbox?.network))
      : this.#stoppedResult()
  }

  // ---- working ---------------------------------------------------------------------------------------------------

  async #findMachineProblem(): Promise<string | undefined> {
    const free = await this.#options.dependencies.freeSpace()
    const shortage = describeShortage(free, FREE_BYTES_MIN)
    if (shortage === undefined) return this.#quotaWatch?.findProblem(free)
    return `the worker's disk is nearly full (${shortage}); make room or lower sandbox.diskQuotaGib`
  }

  /** If this process dies, the next one uses this record to find out what the agent has spent. */
  #recordAgent({ task }: PreparedAgent): void {
    const { sandboxes, request } = this.#options
    const { leaseId, job } = request
    const { run, agent, sandbox } = job
    sandboxes.recordAgent(
      run.id,
      sandboxAgentOf(agent, { leaseId, session: task.sessionId, since: this.#resumedSince }),
      isolationOf(sandbox, this.#derivedHosts),
    )
  }

  #explainCredential(agentOutcome: AgentOutcome): AgentOutcome {
    if (agentOutcome.failure !== 'credentials') return agentOutcome
    const { job } = this.#options.request
    return { ...agentOutcome, reason: explainRefusedCredential(job, agentOutcome.reason ?? '') }
  }

  #onSessionId(id: string): void {
    if (this.#sessionId === id) return
    this.#sessionId = id
    this.#options.onProgress({ agentSessionId: id })
  }

  #endAgent({ how, reason }: StopRequest): void {
    if (how === 'kill') this.#agentWatch?.kill(reason)
    else this.#agentWatch?.interrupt(reason)
  }

  // ---- finishing -------------------------------------------------------------------------------------------------

  /** Runs after every execution, however the agent ended. */
  async #reportSpending(): Promise<readonly CostEntry[]> {
    const { dependencies, request, reporter } = this.#options
    const preparedAgent = this.#preparedAgent
    if (preparedAgent === undefined || this.#session === undefined) return []
    await this.#session.waitUntilEmpty()
    const sessionId = this.#sessionId ?? preparedAgent.task.sessionId
    const files = openAgentFiles(
      this.#session.folders.home,
      this.#startUsageTimeLimit(),
      dependencies.clock.now(),
    )
    const usageCost = await this.#orFallback(
      reportUsage(preparedAgent, files, sessionId, reporter, this.#resumedSince),
      () => undefined,
    )
    const stated = this.#exitReport === undefined ? usageCost : bestCost(this.#exitReport, usageCost)
    const cost = checkedCost(preparedAgent.driver.provider, stated, this.#meter?.rows() ?? [])
    if (cost === undefined) return []
    reporter.report({ is: 'event', event: { type: 'cost', at: this.#instant(), entry: cost } })
    reporter.report({ is: 'patch', patch: { costs: [cost] } })
    dependencies.log.debug({ runId: request.job.run.id }, 'the agent has ended')
    return [cost]
  }

  async #collectOutputs(): Promise<CollectedOutputs> {
    const session = this.#session
    if (session === undefined || this.#isSandboxUntouched || this.#isKilled()) return NO_OUTPUTS
    await session.waitUntilEmpty()
    const { reporter, request } = this.#options
    const outputs = await collectOutputs(session.folders.out, {
      reporter,
      instant: () => this.#instant(),
      mayContinue: this.#startTimeLimit(),
      artifactBytes: request.job.limits.artifactBytes,
      search: this.#search,
    })
    if (outputs.leftOut.length > 0) session.log(outputs.leftOut.join('\n'))
    return outputs
  }

  /** A secret in an output, or in the agent's last message, fails the run before anything is published. */
  #judgeSecrets(agentOutcome: AgentOutcome, { foundSecret }: CollectedOutputs): AgentOutcome {
    const inSummary = this.#search.findIn(this.#exitReport?.summary ?? '')
    const reason =
      foundSecret ??
      (inSummary === undefined ? undefined : explainFoundSecret(this.#search, inSummary, SUMMARY, SUMMARY))
    if (reason === undefined) return agentOutcome
    this.#session?.log(reason)
    return agentOutcome.verdict === 'stopped' ? agentOutcome : { verdict: 'failed', reason }
  }

  /** The agent's last message, unless it holds a secret. */
  #agentSummary(): string {
    const summary = this.#exitReport?.summary ?? ''
    return this.#search.findIn(summary) === undefined ? summary : ''
  }

  /** Publishes the agent's work if the agent is done and this worker still holds the lease. */
  async #publishWork(agentOutcome: AgentOutcome): Promise<PublishEnd> {
    const { request } = this.#options
    const session = this.#session
    if (agentOutcome.verdict !== 'done' || session === undefined || !this.#isCheckedOut)
      return {
        published: yes(undefined),
        isUnpublished: agentOutcome.verdict === 'stopped' && this.#isWorkRemembered,
      }
    if (this.#time.isOver) {
      if (!this.#isWorkRemembered) await this.#rememberWork(session, { areOutputsDue: true })
      return { published: this.#time.refusal(), isUnpublished: this.#isWorkRemembered }
    }
    const isHookDue = this.#preparedAgent !== undefined || this.#plan.isHookDue()
    const failed = isHookDue
      ? await this.#runLastHook(session, request.job.repo.hooks?.afterAgent)
      : undefined
    if (failed !== undefined) return failed
    const end = await this.#plan.publish({
      session,
      time: this.#time,
      agentSummary: this.#agentSummary(),
      addArtifact: (name, text) => this.#addArtifact(name, text),
      addBundle: (path) => this.#addBundle(session, path),
      mayContinue: () => this.#stopRequest === undefined,
      signal: this.#abort.signal,
      afterPush: { mayContinue: () => !this.#finalAbort.signal.aborted, signal: this.#finalAbort.signal },
    })
    const { published } = end
    if (published.ok && published.value !== undefined) {
      const { summary: _, ...progress } = published.value
      this.#options.onProgress(progress)
    }
    return end
  }

  /** The agent is done, so a stop of the worker meanwhile keeps its work. */
  async #runLastHook(session: SandboxSession, hook: string | undefined): Promise<PublishEnd | undefined> {
    if (isBlank(hook)) return undefined
    const { folders } = session
    await this.#rememberWork(session, {})
    const failed = await this.#time.measure((signal) =>
      this.#runScript(session, 'hook', AFTER_AGENT, hook, signal),
    )
    if (failed === undefined) return undefined
    if (this.#time.isOver) return { published: this.#time.refusal(), isUnpublished: this.#isWorkRemembered }
    if (this.#stopRequest === undefined) await unpublishedWork.forget(folders)
    const note = await unpublishedWork.read(folders)
    return { published: failed, isUnpublished: !note.ok || note.value !== undefined }
  }

  async #rememberWork(session: SandboxSession, due: WorkDue): Promise<void> {
    const remembered = this.#plan.remember(session, this.#agentSummary(), due).then(() => true)
    this.#isWorkRemembered = await this.#orFallback(remembered, () => false)
  }

  /** The agent may have written an artifact of the same name. */
  #addArtifact(name: string, text: string): void {
    const free = this.#agentArtifacts.includes(name) ? `switchyard-${name}` : name
    reportTextArtifact(this.#reporter, this.#instant(), free, text)
    this.#ownArtifacts.push(free)
  }

  async #addBundle(session: SandboxSession, path: string): Promise<boolean> {
    const { reporter, request } = this.#options
    const name = bundleName(request.job.followUp)
    const leftOut = await sendBundle(name, path, {
      reporter,
      instant: () => this.#instant(),
      artifactBytes: request.job.limits.artifactBytes,
    })
    if (leftOut === undefined) this.#ownArtifacts.push(name)
    else session.log(leftOut)
    return leftOut === undefined
  }

  async #buildOutcome(
    agentOutcome: AgentOutcome,
    costs: readonly CostEntry[],
    { artifacts }: CollectedOutputs,
    end: PublishEnd,
  ): Promise<RunOutcome> {
    const { published } = end
    const sandbox = await this.#orFallback(this.#retainSandbox(agentOutcome, end), () => undefined)
    const work = published.ok ? published.value : undefined
    return {
      ...statusOf(agentOutcome, end, this.#stopRequest),
      costs: [...costs],
      ...describePublished(work, this.#buildSummary(published), [...artifacts, ...this.#ownArtifacts]),
      ...(this.#sessionId === undefined ? {} : { agentSessionId: this.#sessionId }),
      ...(sandbox === undefined ? {} : { sandbox }),
    }
  }

  #buildSummary(published: Result<PublishedWork | undefined>): string {
    const summary = (published.ok ? published.value?.summary : undefined) ?? this.#agentSummary()
    const isUnchanged = published.ok && published.value === undefined && this.#exitReport?.verdict === 'done'
    return isUnchanged
      ? `${summary}\n\nNothing in the repository was changed, so there is no pull request.`.trim()
      : summary
  }

  async #retainSandbox(agentOutcome: AgentOutcome, { published, isUnpublished }: PublishEnd) {
    const { sandboxes, request } = this.#options
    if (this.#isSandboxUntouched) return this.#untouchedSandbox()
    if (this.#session === undefined || !this.#mayGoOnLater()) return undefined
    // Without an agent there is no session to resume, and the log tells the rest: let the sandbox expire at once.
    if (this.#preparedAgent === undefined && !this.#plan.hasRetainedSandbox())
      return { ...this.#sandboxReference(), retainedUntil: this.#instant() }
    this.#isRetained = true
    const isPublished = agentOutcome.verdict === 'done' && published.ok
    const retainedUntil = await sandboxes.retain(request.job.run.id, {
      hours: request.job.retentionHours,
      unpushed: !isPublished || this.#plan.hasUnpublishedWork(),
      sessionId: this.#sessionId,
    })
    if (retainedUntil === undefined) return undefined
    return { ...this.#sandboxReference(), retainedUntil, ...(isUnpublished ? { unpublished: true } : {}) }
  }

  /** The sandbox is kept for no longer than before. */
  async #untouchedSandbox() {
    const { sandboxes, request } = this.#options
    const { id } = request.job.run
    const retention = { hours: request.job.retentionHours, unpushed: true }
    const retainedUntil = sandboxes.get(id)?.retainedUntil ?? (await sandboxes.retain(id, retention))
    if (retainedUntil === undefined) return undefined
    return { ...this.#sandboxReference(), retainedUntil, unpublished: true }
  }

  /**
   * After a lost lease another attempt at the run publishes the finished work, or goes on in the agent's session; the host
   * says when it does neither.
   */
  #mayGoOnLater(): boolean {
    if (this.#stopRequest?.leaseLost !== true || this.#isWorkRemembered) return true
    return this.#options.request.job.kind === 'run' && this.#sessionId !== undefined
  }

  // ---- helpers ---------------------------------------------------------------------------------------------------

  /** Phases run one after the other; a thrown error becomes the phase's failure. */
  #runPhase<T>(work: () => Promise<T>, failed: (reason: string) => T): Promise<T> {
    const done = this.#orFallback(work(), failed)
    this.#currentPhase = done
    return done
  }

  /** Isolates the steps at the end of a run: a full disk in one step must not lose the results of the others. */
  #orFallback<T>(step: Promise<T>, failed: (reason: string) => T): Promise<T> {
    return step.catch((error: unknown) => {
      const { dependencies, request } = this.#options
      dependencies.log.error({ err: error, runId: request.job.run.id }, 'a step of a run failed unexpectedly')
      return failed(truncateToChars(error instanceof Error ? error.message : String(error), TEXT_CHARS_MAX))
    })
  }

  #sandboxReference() {
    const { dependencies, request } = this.#options
    const { workerId, job } = request
    return { provider: dependencies.sandboxProvider, id: job.run.id, workerId }
  }

  /** The returned function tells whether work may go on: without limit, or briefly once the run has to stop. */
  #startTimeLimit(): () => boolean {
    const mayReadUsage = this.#startUsageTimeLimit()
    return () => !this.#isKilled() && mayReadUsage()
  }

  /** Usage is read after a kill, too. */
  #startUsageTimeLimit(): () => boolean {
    const { clock } = this.#options.dependencies
    const startedAt = clock.monotonic()
    return () => {
      if (this.#time.isOver) return false
      return this.#stopRequest === undefined || clock.monotonic() - startedAt <= STOPPED_OUTPUTS_MS_MAX
    }
  }

  #isKilled(): boolean {
    return this.#stopRequest?.how === 'kill'
  }

  #stoppedResult(): Refused {
    return no('conflict', this.#stopRequest?.reason ?? 'stopped')
  }

  #stoppedOutcome(): AgentOutcome {
    return { verdict: 'stopped', reason: this.#stopRequest?.reason ?? 'stopped' }
  }

  #instant(): string {
    return new Date(this.#options.dependencies.clock.now()).toISOString()
  }
}

function createPlan({ dependencies, sandboxes, request }: RunExecutionOptions): WorkPlan {
  return request.job.kind === 'follow-up'
    ? new FollowUpPlan(dependencies, sandboxes, request)
    : new NewRunPlan(dependencies, sandboxes, request)
}

function statusOf(
  { verdict, reason, failure }: AgentOutcome,
  end: PublishEnd,
  stop: StopRequest | undefined,
): OutcomeStatus {
  if (verdict === 'done') return statusOfPublishing(end, stop)
  if (verdict === 'stopped') return { status: 'cancelled', error: reasonText(reason) }
  return { status: 'failed', error: reasonText(reason), ...(failure === undefined ? {} : { failure }) }
}

/** The worker failed at a step, and the sandbox may hold finished work. */
const unexpectedEnd = (reason: string): PublishEnd => ({
  published: no('failed', reason),
  isUnpublished: false,
})

const isBlank = (text = ''): boolean => text.trim() === ''

function failedBy({ message, failure }: Refusal): AgentOutcome {
  return { verdict: 'failed', reason: message, ...(failure === undefined ? {} : { failure }) }
}
