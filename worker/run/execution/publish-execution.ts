/**
 * `PublishExecution` executes a job that only publishes: the finished work of an earlier execution, in the sandbox of its
 * run, without an agent. There is a network inside only for a hook of the repository that was interrupted after the agent.
 *
 * The work is collected again, so that nothing is pushed that was not searched, and what a person mended in the sandbox
 * is published with it. While the work cannot be published, the sandbox is kept for no longer than before.
 */

import { joinStopRequests } from '../../../core/daemon/outcome.ts'
import type {
  AgentOutcome,
  Execution,
  ExecutionReporter,
  ExecutionRequest,
  Progress,
  StopRequest,
} from '../../../core/daemon/ports.ts'
import { createRedactor } from '../../../core/redact-secrets.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import type { RunOutcome } from '../../../protocol/frames.ts'
import { bundleName } from '../../../protocol/kept-bundle.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import { entriesOf } from '../../registries/registry-hosts.ts'
import { createRunSecretSearch, secretsOfJob } from '../../secrets/run-secrets.ts'
import type { Sandboxes } from '../disk/sandboxes.ts'
import { AFTER_AGENT, describeScriptFailure, SandboxSession } from '../sandbox-session.ts'
import { collectOutputs, reportTextArtifact, sendBundle } from './collect-outputs.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { describePublished, PhaseReporter, reasonText, statusOfPublishing } from './publish-outcome.ts'
import { publishLeftWork } from './publish-work.ts'
import { tryAgain, type UnpublishedWork, unpublishedWork } from './unpublished-work.ts'
import { FinalizingTime, type PublishEnd, type PublishRequest } from './work-plan.ts'

export interface PublishExecutionOptions {
  readonly dependencies: ExecutorDependencies
  readonly sandboxes: Sandboxes
  readonly request: ExecutionRequest
  readonly reporter: ExecutionReporter
  readonly onProgress: (progress: Progress) => void
  /** Called when every process of the execution has ended. */
  readonly onGone: () => void
}

const GONE = no('gone', 'the sandbox with the finished work of this run is gone')

export class PublishExecution implements Execution {
  readonly publishesOnly = true
  readonly #options: PublishExecutionOptions
  readonly #reporter: PhaseReporter
  readonly #abort = new AbortController()
  readonly #finalAbort = new AbortController()
  #stopRequest: StopRequest | undefined
  #session: SandboxSession | undefined
  #isGone = false
  #currentPhase: Promise<unknown> = Promise.resolve()
  readonly #artifacts = new Set<string>()
  readonly #time: FinalizingTime

  constructor(options: PublishExecutionOptions) {
    this.#options = options
    this.#reporter = new PhaseReporter(options.reporter)
    this.#reporter.phase = 'publish'
    const { clock, finalizingMs } = options.dependencies
    this.#time = new FinalizingTime(clock, finalizingMs)
  }

  // ---- the phases ------------------------------------------------------------------------------------------------

  prepare(): Promise<Result<Progress>> {
    return this.#runPhase(
      async () => {
        const opened = await this.#open()
        if (!opened.ok || this.#stopRequest === undefined) return opened
        return no('conflict', this.#stopRequest.reason)
      },
      // A full disk, for example, says nothing about the work.
      (reason) => tryAgain({ kind: 'failed', message: reason }),
    )
  }

  async #open(): Promise<Result<Progress>> {
    const { dependencies, sandboxes, request, onProgress } = this.#options
    const { job } = request
    const folders = await sandboxes.openAsItIs(job.run.id)
    const note = folders === undefined ? yes(undefined) : await unpublishedWork.read(folders)
    if (!note.ok) return tryAgain(note.refusal)
    const work = note.value
    this.#isGone = work === undefined
    if (folders === undefined || work === undefined) return GONE
    if (work.remote !== job.repo.remote || work.branch !== job.branch)
      return no(
        'invalid',
        `the work is for ${work.branch} of ${work.remote}, and the job for ${job.branch} of ${job.repo.remote}`,
      )
    const { network = 'none', allowedHosts = [] } = job.sandbox ?? {}
    const reachable = work.from?.reachable ?? work.followUp?.start.reachable
    const egress = await dependencies.openEgress({
      ...(work.isHookDue === true
        ? { network, allowedHosts: [...allowedHosts, ...entriesOf(reachable?.hosts ?? [])] }
        : { network: 'none', allowedHosts: [] }),
      folder: folders.root,
      ...(dependencies.isRoot ? { owner: dependencies.userFor(folders.number) } : {}),
      clock: dependencies.clock,
      log: () => {},
    })
    const redact = createRedactor(secretsOfJob(job).map(({ value }) => value))
    this.#session = new SandboxSession({
      dependencies,
      job,
      folders,
      egress,
      reporter: this.#reporter,
      redact,
    })
    onProgress({ sandbox: this.#sandboxReference(), branch: job.branch })
    return yes({ sandbox: this.#sandboxReference() })
  }

  async runAgent(): Promise<AgentOutcome> {
    return this.#stopRequest === undefined
      ? { verdict: 'done' }
      : { verdict: 'stopped', reason: this.#stopRequest.reason }
  }

  finish(ended: AgentOutcome): Promise<RunOutcome> {
    return this.#runPhase(
      async () => {
        const session = this.#session
        const note = this.#isGone ? yes(undefined) : await this.#readWork()
        if (!note.ok)
          return this.#buildOutcome({ published: tryAgain(note.refusal), isUnpublished: true }, undefined)
        const work = note.value
        if (work === undefined) return failed(ended.reason)
        const isReady = ended.verdict === 'done' && session !== undefined
        const end = isReady
          ? ((await this.#collectOutputs(session, work)) ??
            (await this.#runHook(session, work)) ??
            (await this.#publish(session, work)))
          : unpublished(ended)
        return await this.#buildOutcome(end, work)
      },
      (problem) => failed(problem),
    )
  }

  stop(later: StopRequest): void {
    const request = joinStopRequests(this.#stopRequest, later)
    if (request === undefined) return
    this.#stopRequest = { ...request, reason: this.#stopRequest?.reason ?? request.reason }
    this.#abort.abort()
    if (request.how === 'kill' || request.leaseLost === true) this.#finalAbort.abort()
    this.#session?.stop()
  }

  async whenExited(): Promise<void> {
    await this.#currentPhase
    await this.#session?.close()
    this.#options.onGone()
  }

  // ---- publishing ------------------------------------------------------------------------------------------------

  /** The end of the worker has interrupted the execution of the agent before its outputs were on their way. */
  async #collectOutputs(
    session: SandboxSession,
    { areOutputsDue }: UnpublishedWork,
  ): Promise<PublishEnd | undefined> {
    if (areOutputsDue !== true) return undefined
    const { dependencies, request } = this.#options
    const { artifacts, leftOut, foundSecret } = await this.#time.measure((signal) =>
      collectOutputs(session.folders.out, {
        reporter: this.#reporter,
        instant: () => this.#instant(),
        mayContinue: () => this.#stopRequest === undefined && !signal.aborted,
        artifactBytes: request.job.limits.artifactBytes,
        search: createRunSecretSearch(request.job, dependencies.ownSecrets),
      }),
    )
    for (const name of artifacts) this.#artifacts.add(name)
    if (leftOut.length > 0) session.log(leftOut.join('\n'))
    if (foundSecret === undefined) return this.#time.isOver ? this.#overdue() : undefined
    session.log(foundSecret)
    await unpublishedWork.forget(session.folders)
    return { published: no('failed', foundSecret), isUnpublished: false }
  }

  /** The end of the worker has interrupted the hook. A failure of the hook fails the run, as after its agent. */
  async #runHook(session: SandboxSession, { isHookDue }: UnpublishedWork): Promise<PublishEnd | undefined> {
    const { repo, sandbox } = this.#options.request.job
    const hook = isHookDue === true ? (repo.hooks?.afterAgent ?? '') : ''
    if (hook.trim() === '') return undefined
    this.#reporter.phase = 'hook'
    const end = await this.#time.measure((signal) => session.runScript(hook, signal))
    this.#reporter.phase = 'publish'
    if (end.code === 0) return undefined
    if (this.#time.isOver) return this.#overdue()
    const isStopped = this.#stopRequest !== undefined
    if (!isStopped) await unpublishedWork.forget(session.folders)
    const reason = this.#stopRequest?.reason ?? describeScriptFailure(AFTER_AGENT, end, sandbox?.network)
    return { published: no('failed', reason), isUnpublished: isStopped }
  }

  #overdue(): PublishEnd {
    return { published: this.#time.refusal(), isUnpublished: true }
  }

  async #publish(session: SandboxSession, work: UnpublishedWork): Promise<PublishEnd> {
    const { dependencies, request } = this.#options
    const { job, leaseId } = request
    const left = { job, leaseId, left: work }
    const end = await publishLeftWork(dependencies, left, this.#publishRequest(session, work))
    if (end.published.ok && end.published.value !== undefined) {
      const { summary: _, ...progress } = end.published.value
      this.#options.onProgress(progress)
    }
    return end
  }

  #publishRequest(session: SandboxSession, { summary }: UnpublishedWork): PublishRequest {
    return {
      session,
      time: this.#time,
      agentSummary: summary,
      addArtifact: (name, text) => {
        reportTextArtifact(this.#reporter, this.#instant(), name, text)
        this.#artifacts.add(name)
      },
      addBundle: (path) => this.#addBundle(session, path),
      mayContinue: () => this.#stopRequest === undefined,
      signal: this.#abort.signal,
      afterPush: {
        mayContinue: () => !this.#finalAbort.signal.aborted,
        signal: this.#finalAbort.signal,
      },
    }
  }

  async #addBundle(session: SandboxSession, path: string): Promise<boolean> {
    const name = bundleName(this.#options.request.job.followUp)
    const leftOut = await sendBundle(name, path, {
      reporter: this.#reporter,
      instant: () => this.#instant(),
      artifactBytes: this.#options.request.job.limits.artifactBytes,
    })
    if (leftOut !== undefined) session.log(leftOut)
    return leftOut === undefined
  }

  // ---- the outcome -----------------------------------------------------------------------------------------------

  /** `work`: undefined where its note cannot be read. */
  async #buildOutcome(
    { published, isUnpublished }: PublishEnd,
    work: UnpublishedWork | undefined,
  ): Promise<RunOutcome> {
    const { sandboxes, request } = this.#options
    const { id } = request.job.run
    const note = await this.#readWork()
    const { bundled } = (note.ok ? note.value : work) ?? {}
    if (isUnpublished && bundled !== undefined) this.#artifacts.add(bundleName(request.job.followUp))
    const kept = sandboxes.get(id)?.retainedUntil
    const retention = { hours: request.job.retentionHours, unpushed: !published.ok }
    // Published work is published, also when a full disk takes no new record of its sandbox.
    const retainedUntil = isUnpublished ? kept : await sandboxes.retain(id, retention).catch(() => kept)
    const visible = published.ok ? published.value : undefined
    return {
      ...statusOfPublishing({ published, isUnpublished }, this.#stopRequest),
      costs: [],
      ...describePublished(visible, visible?.summary ?? work?.summary ?? '', [...this.#artifacts]),
      sandbox: {
        ...this.#sandboxReference(),
        ...(retainedUntil === undefined ? {} : { retainedUntil }),
        ...(isUnpublished ? { unpublished: true } : {}),
      },
    }
  }

  #readWork(): Promise<Result<UnpublishedWork | undefined>> {
    const { sandboxes, request } = this.#options
    return unpublishedWork.read(sandboxes.foldersOf(request.job.run.id))
  }

  #sandboxReference() {
    const { dependencies, request } = this.#options
    return { provider: dependencies.sandboxProvider, id: request.job.run.id, workerId: request.workerId }
  }

  /** Phases run one after the other; a thrown error becomes the phase's failure. */
  #runPhase<T>(phase: () => Promise<T>, onError: (reason: string) => T): Promise<T> {
    const done = phase().catch((error: unknown) => {
      const { dependencies, request } = this.#options
      dependencies.log.error({ err: error, runId: request.job.run.id }, 'publishing failed unexpectedly')
      return onError(messageOf(error))
    })
    this.#currentPhase = done
    return done
  }

  #instant(): string {
    return new Date(this.#options.dependencies.clock.now()).toISOString()
  }
}

const failed = (reason: string | undefined): RunOutcome => ({
  status: 'failed',
  error: reasonText(reason),
  costs: [],
})

/** The execution ended before it came to the work, which stays as it is. */
const unpublished = ({ reason = '', failure }: AgentOutcome): PublishEnd => ({
  published: failure === 'publish' ? tryAgain({ kind: 'failed', message: reason }) : no('conflict', reason),
  isUnpublished: true,
})
