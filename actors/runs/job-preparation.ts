/**
 * JobPreparation decides what a queued run waits for, which worker holds its sandbox, and which job the worker gets.
 *
 * The ticket of a run determines its repository. The pull request of a follow-up determines the repository instead: the
 * ticket and the tracker do not matter to it.
 */
import { orElse } from '../../core/explain/facts.ts'
import type { WaitReason } from '../../core/fleet/obstacles.ts'
import type { PullReference } from '../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { editedReason, startCommand, unreadEdit } from '../../core/run/edited-ticket.ts'
import { chooseRepoOfPull, nextFollowUpNumber, remarkKeys, sandboxHolder } from '../../core/run/follow-up.ts'
import { heldReason, publishAnywayCommand } from '../../core/run/found-keys.ts'
import {
  doneHolder,
  preferredHolder,
  type SandboxHolder,
  withResumableSession,
  withSession,
} from '../../core/run/interruption.ts'
import { buildFollowUpJob, buildJob, publishJob } from '../../core/run/job.ts'
import { type JobNeeds, jobNeeds, publishingNeeds } from '../../core/run/job-needs.ts'
import { runInCommand } from '../../core/run/name-in-commands.ts'
import { publishingReason } from '../../core/run/publishing.ts'
import type { JobPlace } from '../../core/run/run-pull.ts'
import { chooseRepo, type RepoChoice } from '../../core/tickets/repo.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { AgentJob, Job, RunOutcome, RunPatch } from '../../protocol/frames.ts'
import type { Run } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import type { LeaseContext } from '../leases/lease.machine.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import type { ModuleViews } from '../runtime/module.ts'
import type { AnsweredRemarks } from './follow-up-observer.ts'
import type { FollowUpReader, Readiness } from './follow-up-reader.ts'
import type { RunContext } from './run.machine.ts'
import { RUN } from './run.machine.ts'
import type { RunPulls } from './run-pulls.ts'

export type JobModules = Pick<ModuleViews, 'workers' | 'memories' | 'tracker' | 'runRecords' | 'trustedClock'>

/** The parts of the jobs module itself. */
export interface JobParts {
  readonly followUpReader: FollowUpReader
  readonly answeredRemarks: AnsweredRemarks
  readonly runPulls: RunPulls
}

/** The queue reason of a run whose worker is lost and whose pull request is not confirmed. */
const ADOPTION_REASON = 'its worker opened a pull request, and the code host has not confirmed it'

export class JobPreparation {
  readonly #context: HostContext
  readonly #modules: JobModules
  readonly #parts: JobParts
  /** The agent in the job of each live lease. Empty after a restart of the host. */
  readonly #sentAgents = new Map<string, AgentProvider>()

  constructor(context: HostContext, modules: JobModules, parts: JobParts) {
    this.#context = context
    this.#modules = modules
    this.#parts = parts
  }

  // ---- waiting -----------------------------------------------------------------------------------------------------

  /** Returns what a run waits for besides a worker. Neither a follow-up nor finished work waits for blockers. */
  waitingFor(run: Run): WaitReason | undefined {
    const adoption = this.#contextOf(run.id)?.adoption ?? null
    if (adoption !== null)
      return {
        gate: 'duplicate',
        reason: adoption.reason === null ? ADOPTION_REASON : `${ADOPTION_REASON}: ${adoption.reason}`,
      }
    const publishing = this.#contextOf(run.id)?.publishing ?? null
    if (publishing !== null && run.foundKeys !== undefined)
      return {
        gate: 'repository',
        reason: heldReason(run.foundKeys),
        cure: publishAnywayCommand(run),
      }
    if (publishing !== null && publishing.nextAt !== null)
      return {
        gate: 'repository',
        reason: publishingReason(publishing.nextAt, publishing.why),
        cure: orElse(`switchyard retry ${runInCommand(run)}`),
      }
    const isFollowUp = this.isFollowUp(run.id)
    const edit = isFollowUp || publishing !== null ? undefined : unreadEdit(run)
    if (edit !== undefined)
      return {
        gate: 'eligible',
        reason: editedReason(run.ticket, edit),
        cure: startCommand(run.ticket),
      }
    const blocked =
      isFollowUp || publishing !== null ? undefined : this.#modules.tracker.intake.waitingFor(run.ticket)
    if (blocked !== undefined) return { gate: 'blockers', reason: blocked }
    const repo = this.repoOf(run)
    const reading = isFollowUp ? this.#parts.followUpReader.waitingFor(run.id) : undefined
    const reason = repo.ok ? reading : repo.refusal.message
    return reason === undefined ? undefined : { gate: 'repository', reason }
  }

  /** Whether the run's job only publishes what its sandbox holds. */
  publishes({ id }: Run): boolean {
    return (this.#contextOf(id)?.publishing ?? null) !== null
  }

  /** Returns the worker that retains the sandbox which the run's job needs, until the retention ends. */
  sandboxHolder(run: Run): SandboxHolder | undefined {
    const { trustedClock, workers } = this.#modules
    const holder = this.#holderOf(run)
    if (holder === undefined || workers.registry.get(holder.workerId) === undefined) return undefined
    return holder.until > (trustedClock.now() ?? Number.NEGATIVE_INFINITY) ? holder : undefined
  }

  #holderOf(run: Run): SandboxHolder | undefined {
    const { workerId = '', retainedUntil = '' } = run.sandbox
    // Finished work never goes elsewhere: the run waits until its own deadline says that the work is lost.
    const until = this.publishes(run) ? Number.POSITIVE_INFINITY : Date.parse(retainedUntil)
    if (this.isFollowUp(run.id) || this.publishes(run))
      return sandboxHolder(run, undefined) === undefined ? undefined : { workerId, until }
    const context = this.#contextOf(run.id)
    const holder = context && doneHolder(context, this.#context.config().sandbox.retentionHours)
    // Elsewhere, or on an older worker, the run begins anew in any case.
    return this.#modules.workers.registry.get(workerId)?.continuesSessions === true ? holder : undefined
  }

  /** Returns the worker that may hold the sandbox of an interrupted run, which does not wait for that worker. */
  preferredHolder({ id }: Run): string | undefined {
    const context = this.#contextOf(id)
    return context === undefined ? undefined : preferredHolder(context)
  }

  readiness(run: Run): Readiness {
    if ((this.#contextOf(run.id)?.adoption ?? null) !== null) return 'held'
    return this.isFollowUp(run.id) ? this.#parts.followUpReader.readiness(run) : 'ready'
  }

  /** Returns where a run's pull request is. Refused when the pull request can't be followed up. */
  pullPlaceOf(run: Run): Result<PullReference> {
    const place = this.#pullOf(run)
    const repo = place.ok ? this.#repoAt(place.value, run) : place
    return repo.ok ? place : repo
  }

  /** The repository and the branch that the job of a queued run will name; undefined for a follow-up. */
  placeOf(run: Run): JobPlace | undefined {
    const place = this.isFollowUp(run.id) ? undefined : this.#parts.runPulls.placeOf(run)
    return place?.ok === true ? place.value : undefined
  }

  /** Whether an edit of the ticket has given the run's next job another repository or branch. */
  isMoved({ before, after }: StateChange<RunContext>): boolean {
    const runBefore = before?.context.run
    const { run } = after.context
    if (runBefore === undefined || runBefore.ticket === run.ticket) return false
    const [from, to] = [this.placeOf(runBefore), this.placeOf(run)]
    return from?.remote !== to?.remote || from?.branch !== to?.branch
  }

  /** Returns the needs of the run's job; undefined while it has no repository. */
  needsOf(run: Run): JobNeeds | undefined {
    const repo = this.repoOf(run)
    if (!repo.ok) return undefined
    const config = this.#context.config()
    const { mapping } = repo.value
    return this.publishes(run) ? publishingNeeds(mapping, config) : jobNeeds(run, mapping, config)
  }

  // ---- the job -----------------------------------------------------------------------------------------------------

  /** Prepares the job of a lease's run with everything that the worker needs, secrets included. */
  prepareJob({ id, runId, workerId }: LeaseContext): Result<Job> {
    const context = this.#contextOf(runId)
    if (context === undefined) return no('unknown', 'the run is no more')
    const { run, publishing } = context
    if (publishing !== null && this.sandboxHolder(run) === undefined)
      return no('gone', 'the sandbox with its work is kept no longer')
    const job = context.job === 'follow-up' ? this.#prepareFollowUpJob(context) : this.#prepareRunJob(context)
    if (!job.ok) return job
    this.#sentAgents.set(id, job.value.agent.provider)
    if (publishing !== null) {
      const knowsAnyway = this.#modules.workers.registry.get(workerId)?.holdsKeys === true
      return yes(publishJob(job.value, knowsAnyway ? publishing : {}))
    }
    return yes(withSession(job.value, context, this.#modules.workers.registry.get(workerId)))
  }

  #prepareRunJob({ run, place }: RunContext): Result<AgentJob> {
    const config = this.#context.config()
    const repo = chooseRepo(run.ticket, config.repos)
    if (!repo.ok) return repo
    const memories = this.#modules.memories.kept(repo.value.mapping.remote)
    const storedLogBytes = this.#modules.runRecords.eventLog.storedBytes(run.id)
    const job = buildJob({ kind: 'run', run, config, repo: repo.value, memories, storedLogBytes })
    // The pull request is judged by the place that was stored with the lease.
    if (place !== null && (place.remote !== job.repo.remote || place.branch !== job.branch))
      return no('conflict', 'the configuration of its repository changed meanwhile')
    return yes(job)
  }

  #prepareFollowUpJob({ run, interruptions, publishing, ...context }: RunContext): Result<AgentJob> {
    const { followUpReader, answeredRemarks } = this.#parts
    const repo = this.#repoOfFollowUp(run)
    if (!repo.ok) return repo
    const talk = followUpReader.talk(run.id)
    if (!talk.ok) return talk
    // Runs that an older version stored have no follow-up number.
    const stored = context.followUp ?? { id: run.id, number: nextFollowUpNumber(run.costs) }
    const { isInstructed = false, ...followUp } = stored
    const { instructions: _, ...uninstructed } = run
    const job = buildFollowUpJob({
      run: isInstructed ? run : uninstructed,
      config: this.#context.config(),
      repo: repo.value,
      memories: this.#modules.memories.kept(repo.value.mapping.remote),
      storedLogBytes: this.#modules.runRecords.eventLog.storedBytes(run.id),
      discussion: talk.value,
      followUp,
    })
    const { pull } = job
    // A job that only publishes gives no remarks to an agent.
    if (pull !== undefined && publishing === null)
      answeredRemarks.recordOffer(run.id, {
        followUp: followUp.id,
        url: pull.url,
        keys: remarkKeys(pull),
        answered: talk.value.answered,
        isAgain: interruptions > 0,
      })
    return yes(job)
  }

  forgetJob(leaseId: string): void {
    this.#sentAgents.delete(leaseId)
  }

  /**
   * Takes the session out of a worker's report whose agent can't go on with one. The configuration may name another agent
   * since the job was sent, so a session stays when nothing else tells which agent made it.
   */
  screenSession<R extends RunPatch | RunOutcome>(runId: string, reported: R): R {
    const context = this.#contextOf(runId)
    const provider = this.#sentAgents.get(context?.lease ?? '') ?? context?.run.agent?.provider
    return provider === undefined ? reported : withResumableSession(reported, provider)
  }

  /** Returns why the memories were not kept, if they were not. */
  recordMemories(runId: string, repo: string, learnt: readonly string[]): string | undefined {
    const context = this.#contextOf(runId)
    if (context === undefined) return undefined
    const own = this.#remoteOf(context)
    const ident = context.run.ticket.identifier
    if (!own.ok) return `memories for ${repo} were not kept: ${own.refusal.message}`
    if (own.value !== repo) return `memories for ${repo} were not kept: the run is about another repository`
    const now = this.#context.instant()
    const recorded = this.#modules.memories.record(repo, learnt, { runId, ident, now })
    return recorded.ok ? undefined : `memories were not kept: ${recorded.refusal.message}`
  }

  // ---- repositories ------------------------------------------------------------------------------------------------

  repoOf(run: Run): Result<RepoChoice> {
    return this.isFollowUp(run.id)
      ? this.#repoOfFollowUp(run)
      : chooseRepo(run.ticket, this.#context.config().repos)
  }

  /** A job keeps the repository that was stored with its lease, whatever the configuration says since. */
  #remoteOf({ run, job, place }: RunContext): Result<string> {
    if (job === 'run' && place !== null) return yes(place.remote)
    const repo = this.repoOf(run)
    return repo.ok ? yes(repo.value.mapping.remote) : repo
  }

  #repoOfFollowUp(run: Run): Result<RepoChoice> {
    const place = this.#pullOf(run)
    return place.ok ? this.#repoAt(place.value, run) : place
  }

  #repoAt({ remote }: PullReference, { ticket }: Run): Result<RepoChoice> {
    return chooseRepoOfPull(remote, ticket, this.#context.config().repos)
  }

  #pullOf(run: Run): Result<PullReference> {
    if (run.prUrl === undefined) return no('invalid', `${run.id} has no pull request`)
    const pulls = this.#context.pullRequestApi()
    return pulls.ok ? this.#parts.runPulls.confirmedAt(run, pulls.value) : pulls
  }

  isFollowUp(runId: string): boolean {
    return this.#contextOf(runId)?.job === 'follow-up'
  }

  #contextOf(runId: string): RunContext | undefined {
    return this.#context.system.peek(RUN, runId)?.context
  }
}
