/**
 * `RunExecution` executes one run on this machine: checkout, setup, agent, outputs, publishing.
 *
 * Every command that touches the agent's tree runs inside the sandbox. The sandbox holds only the secrets that it
 * needs. After the lease is lost, nothing is pushed or posted any more. The daemon decides when each phase begins and
 * ends. The `WorkPlan` decides where the work begins and what is published (new run or follow-up).
 */
import { joinStopRequests } from '../../../core/daemon/outcome.ts'
import type { AgentOutcome, Execution, Progress, StopRequest } from '../../../core/daemon/ports.ts'
import { createRedactor } from '../../../core/redact-secrets.ts'
import { no, type Refusal, type Refused, type Result, yes } from '../../../core/result.ts'
import type { RunOutcome } from '../../../protocol/frames.ts'
import { describeReachable, entriesOf } from '../../registries/registry-hosts.ts'
import type { SandboxEgress } from '../../sandbox/egress/sandbox-egress.ts'
import { secretsOfJob } from '../../secrets/run-secrets.ts'
import { hostsOfAgent } from '../agent/agent-access.ts'
import { AgentLaunch } from '../agent/agent-launch.ts'
import { explainRefusedCredential, type PreparedAgent } from '../agent/agent-start.ts'
import { AgentWatch } from '../agent/agent-watch.ts'
import { describeShortage, QuotaWatch } from '../disk/disk-space.ts'
import { isolationOf, sandboxAgentOf } from '../disk/sandbox-record.ts'
import { SandboxSession } from '../sandbox-session.ts'
import { ExecutionState, isBlank, type RunExecutionOptions } from './execution-state.ts'
import { finishExecution } from './finish-execution.ts'
import { unpublishedWork } from './unpublished-work.ts'
import type { AgentRequest } from './work-plan.ts'

/** With less free disk than this, the agent is stopped before the whole machine runs out of space. */
const FREE_BYTES_MIN = 256 * 1024 * 1024

export class RunExecution implements Execution {
  readonly #state: ExecutionState
  #egress: SandboxEgress | undefined
  /** The hosts of code host and registries, which a resumed sandbox reaches too. */
  #derivedHosts: readonly string[] = []
  #agentWatch: AgentWatch | undefined
  #quotaWatch: QuotaWatch | undefined
  readonly #launch: AgentLaunch
  #agentRequest: AgentRequest | undefined
  #currentPhase: Promise<unknown> = Promise.resolve()

  constructor(options: RunExecutionOptions) {
    this.#state = new ExecutionState(options)
    this.#launch = new AgentLaunch({
      dependencies: options.dependencies,
      job: options.request.job,
      onSpent: (costUsd) => this.#agentWatch?.recordCost(costUsd),
      onExhausted: (reason) => this.#agentWatch?.endForBudget(reason),
    })
  }

  // ---- the phases ------------------------------------------------------------------------------------------------

  prepare(): Promise<Result<Progress>> {
    return this.#runPhase(
      async () => {
        const opened = await this.#openSession()
        if (!opened.ok) return this.#leaveUntouched(opened)
        const session = opened.value
        const checked = await this.#state.plan.checkOut(session, this.#state.abort.signal, (agentRequest) =>
          this.#launchEarly(session, agentRequest),
        )
        if (!checked.ok && checked.refusal.failure === 'publish') return this.#leaveUntouched(checked)
        if (!checked.ok) return this.#state.stopRequest === undefined ? checked : this.#state.stoppedResult()
        this.#state.isCheckedOut = true
        this.#openNetwork(session)
        this.#agentRequest = this.#state.plan.agentRequest()
        const failed = this.#agentRequest === undefined ? undefined : await this.#runSetup(session)
        if (failed !== undefined) return failed
        return this.#state.stopRequest === undefined
          ? yes({ sandbox: this.#state.sandboxReference() })
          : this.#state.stoppedResult()
      },
      (reason) => no('failed', reason),
    )
  }

  runAgent(): Promise<AgentOutcome> {
    return this.#runPhase(
      async () => {
        const session = this.#state.session
        if (session === undefined || this.#state.stopRequest !== undefined) return this.#stoppedOutcome()
        this.#state.reporter.phase = 'agent'
        const agentRequest = this.#agentRequest
        if (agentRequest === undefined) return { verdict: 'done' }
        await this.#state.orFallback(unpublishedWork.reserve(session.folders), () => undefined)
        const launched = await this.#launch.take(session, agentRequest)
        if (!launched.ok) return failedBy(launched.refusal)
        const { prepared, access, meter, held } = launched.value
        if (held === undefined) return this.#stoppedOutcome()
        this.#state.preparedAgent = prepared
        this.#state.meter = meter
        if (agentRequest.resume !== undefined) this.#state.resumedSince = this.#state.instant()
        this.#recordAgent(prepared)
        const { dependencies, request, reporter } = this.#state.options
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
        if (this.#state.stopRequest !== undefined) this.#endAgent(this.#state.stopRequest)
        const { agentOutcome, exitReport } = await this.#agentWatch.waitForEnd()
        this.#agentWatch = undefined
        this.#state.exitReport = exitReport
        // The worker remembers the end before it tells anybody: a worker that dies now never has the agent paid again.
        if (agentOutcome.verdict === 'done') await this.#state.rememberWork(session, { areOutputsDue: true })
        await access.close()
        return this.#explainCredential(agentOutcome)
      },
      (reason) => ({ verdict: 'failed', reason }),
    )
  }

  finish(agentOutcome: AgentOutcome): Promise<RunOutcome> {
    return this.#runPhase(
      async () => {
        await this.#launch.discard()
        return finishExecution(this.#state, agentOutcome)
      },
      (reason) => ({ status: 'failed', error: reason, costs: [] }),
    )
  }

  stop(later: StopRequest): void {
    const request = joinStopRequests(this.#state.stopRequest, later)
    if (request === undefined) return
    // The first reason stays: it says why the run ends.
    this.#state.stopRequest = { ...request, reason: this.#state.stopRequest?.reason ?? request.reason }
    this.#state.abort.abort()
    if (request.how === 'kill' || request.leaseLost === true) this.#state.finalAbort.abort()
    if (this.#agentWatch !== undefined) this.#endAgent(request)
    if (request.how === 'kill' || this.#agentWatch === undefined) this.#state.session?.stop()
  }

  async whenExited(): Promise<void> {
    await this.#currentPhase
    await this.#launch.discard()
    await this.#state.session?.close()
    this.#state.options.onGone()
  }

  /** The execution was abandoned, and there is nothing in which another attempt could go on. */
  get leavesNothing(): boolean {
    return !this.#state.isRetained && !this.#state.plan.hasRetainedSandbox()
  }

  // ---- preparing -------------------------------------------------------------------------------------------------

  /** Another execution publishes the work as soon as its note can be read. */
  #leaveUntouched(refused: Refused): Refused {
    this.#state.isSandboxUntouched = true
    this.#state.isRetained = true
    return this.#state.stopRequest === undefined ? refused : this.#state.stoppedResult()
  }

  async #openSession(): Promise<Result<SandboxSession>> {
    const { dependencies, request, reporter } = this.#state.options
    const { job } = request
    const opened = await this.#state.plan.openFolders()
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
      log: (line) =>
        this.#state.session === undefined ? earlyLines.push(line) : this.#state.session.log(line),
    })
    this.#egress = egress
    const redact = createRedactor(secretsOfJob(job).map(({ value }) => value))
    const session = new SandboxSession({ dependencies, job, folders, egress, reporter, redact })
    this.#state.session = session
    for (const line of earlyLines) session.log(line)
    if (this.#state.stopRequest !== undefined) session.stop()
    this.#state.options.onProgress({ sandbox: this.#state.sandboxReference(), branch: job.branch })
    return yes(session)
  }

  async #watchQuota(folder: string): Promise<QuotaWatch> {
    const { dependencies, request } = this.#state.options
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
    const { agent, credentials, sandbox } = this.#state.options.request.job
    const reachable = this.#state.plan.reachableHosts()
    if (reachable === undefined) return
    const model = hostsOfAgent(agent.provider, credentials).map((host) => ({ host, from: 'agent' }))
    const hosts = [...reachable.hosts, ...model]
    this.#derivedHosts = entriesOf(reachable.hosts)
    this.#egress?.allow(entriesOf(hosts))
    session.log([describeReachable(hosts, sandbox?.allowedHosts ?? []), ...reachable.leftOut].join('\n'))
  }

  /** A repository's own scripts run before the agent, and not beside its sandbox. */
  #launchEarly(session: SandboxSession, agentRequest: AgentRequest): void {
    const { setup, hooks } = this.#state.options.request.job.repo
    if (isBlank(setup) && isBlank(hooks?.beforeAgent)) this.#launch.startEarly(session, agentRequest)
  }

  async #runSetup(session: SandboxSession): Promise<Result<never> | undefined> {
    const { setup, hooks } = this.#state.options.request.job.repo
    const rule = this.#state.plan.setupRule()
    const failed = rule === 'skip' ? undefined : await this.#state.runScript(session, 'setup', 'setup', setup)
    if (failed !== undefined && (rule === 'required' || this.#state.stopRequest !== undefined)) return failed
    return this.#state.runScript(session, 'hook', 'hook beforeAgent', hooks?.beforeAgent)
  }

  // ---- working ---------------------------------------------------------------------------------------------------

  async #findMachineProblem(): Promise<string | undefined> {
    const free = await this.#state.options.dependencies.freeSpace()
    const shortage = describeShortage(free, FREE_BYTES_MIN)
    if (shortage === undefined) return this.#quotaWatch?.findProblem(free)
    return `the worker's disk is nearly full (${shortage}); make room or lower sandbox.diskQuotaGib`
  }

  /** If this process dies, the next one uses this record to find out what the agent has spent. */
  #recordAgent({ task }: PreparedAgent): void {
    const { sandboxes, request } = this.#state.options
    const { leaseId, job } = request
    const { run, agent, sandbox } = job
    sandboxes.recordAgent(
      run.id,
      sandboxAgentOf(agent, { leaseId, session: task.sessionId, since: this.#state.resumedSince }),
      isolationOf(sandbox, this.#derivedHosts),
    )
  }

  #explainCredential(agentOutcome: AgentOutcome): AgentOutcome {
    if (agentOutcome.failure !== 'credentials') return agentOutcome
    const { job } = this.#state.options.request
    return { ...agentOutcome, reason: explainRefusedCredential(job, agentOutcome.reason ?? '') }
  }

  #onSessionId(id: string): void {
    if (this.#state.sessionId === id) return
    this.#state.sessionId = id
    this.#state.options.onProgress({ agentSessionId: id })
  }

  #endAgent({ how, reason }: StopRequest): void {
    if (how === 'kill') this.#agentWatch?.kill(reason)
    else this.#agentWatch?.interrupt(reason)
  }

  /** Phases run one after the other; a thrown error becomes the phase's failure. */
  #runPhase<T>(work: () => Promise<T>, failed: (reason: string) => T): Promise<T> {
    const done = this.#state.orFallback(work(), failed)
    this.#currentPhase = done
    return done
  }

  #stoppedOutcome(): AgentOutcome {
    return { verdict: 'stopped', reason: this.#state.stopRequest?.reason ?? 'stopped' }
  }
}

function failedBy({ message, failure }: Refusal): AgentOutcome {
  return { verdict: 'failed', reason: message, ...(failure === undefined ? {} : { failure }) }
}
