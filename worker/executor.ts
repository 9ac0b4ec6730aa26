/**
 * `LocalExecutor` carries out on this machine what the daemon's actors ask for: executions, resumed sandboxes, disk.
 *
 * Each run has one folder. The executor remembers running executions and resumed sandboxes only to protect their disk;
 * the daemon keeps every other state.
 */
import { chmod, chown, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type {
  DispatchRefusal,
  EndedExecution,
  Execution,
  ExecutionReporter,
  ExecutionRequest,
  Executor,
  Progress,
  RecoveredOutputs,
} from '../core/daemon/ports.ts'
import type { BootedSandbox, BootRequest } from '../core/daemon/terminal.ts'
import type { Cancel, Clock } from '../core/ports/clock.ts'
import { no, type Result } from '../core/result.ts'
import { type ExpiredSandbox, hasAgent, type Job } from '../protocol/frames.ts'
import { openAgentFiles } from './agents/agent-files.ts'
import { readUsageAndCost } from './run/agent/agent-start.ts'
import { describeShortage } from './run/disk/disk-space.ts'
import { isRunFolderName, Sandboxes } from './run/disk/sandboxes.ts'
import { SpaceReclaimer } from './run/disk/space-reclaimer.ts'
import { RunExecution } from './run/execution/execution.ts'
import type { ExecutorDependencies } from './run/execution/executor-dependencies.ts'
import { PublishExecution } from './run/execution/publish-execution.ts'
import { unpublishedWork } from './run/execution/unpublished-work.ts'
import { resumeSandbox } from './run/resume/resume-sandbox.ts'

/** How long a worker with a full disk makes room before it answers; its daemon waits half of DISPATCH_ANSWER_MS. */
export const DISPATCH_RECLAIM_MS_MAX = 3_000

export interface ClosableExecutor extends Executor {
  /** Waits briefly for deletions; the next start finishes the rest. */
  close(): Promise<void>
}

type IsProtected = (runId: string) => boolean

/** How long `close` waits for resumed sandboxes and deletions. */
const CLOSE_MS_MAX = 2_000
/** The least free disk for a checkout, a setup and an agent. */
export const FREE_BYTES_TO_START_MIN = 1024 * 1024 * 1024

export async function openExecutor(dependencies: ExecutorDependencies): Promise<ClosableExecutor> {
  const [folder, trash] = [join(dependencies.folder, 'sandboxes'), join(dependencies.folder, 'trash')]
  const sources = join(dependencies.folder, 'sources')
  await makeFolders(dependencies, [folder, trash, sources, join(sources, 'repositories')])
  const { retentionClock, log } = dependencies
  const sandboxes = await Sandboxes.open({
    folder,
    trash,
    clock: retentionClock,
    log,
    ownerFor: (number) => (dependencies.isRoot ? dependencies.userFor(number) : undefined),
    firstNumber: dependencies.firstNumber,
    diskBytes: dependencies.diskBytes,
    deleteFolder: dependencies.removeFolder,
  })
  return new LocalExecutor(dependencies, sandboxes)
}

/** A sandbox user may pass through to its own folder, and list nothing. */
async function makeFolders(
  { isRoot, userFor }: ExecutorDependencies,
  folders: readonly string[],
): Promise<void> {
  for (const folder of folders) {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    if (!isRoot) continue
    await chown(folder, 0, userFor(0).gid)
    await chmod(folder, 0o710)
  }
}

class LocalExecutor implements ClosableExecutor {
  readonly #dependencies: ExecutorDependencies
  readonly #sandboxes: Sandboxes
  readonly #spaceReclaimer: SpaceReclaimer
  readonly #executions = new Map<string, Execution>()
  /** Sandboxes from the first step of booting until all their processes have ended. */
  readonly #resumed = new Map<string, Promise<Result<BootedSandbox>>>()

  constructor(dependencies: ExecutorDependencies, sandboxes: Sandboxes) {
    this.#dependencies = dependencies
    this.#sandboxes = sandboxes
    const { freeSpace } = dependencies
    this.#spaceReclaimer = new SpaceReclaimer({ sandboxes, freeSpace, bytesMin: FREE_BYTES_TO_START_MIN })
  }

  async refusalOf(job: Job, isProtected: IsProtected): Promise<DispatchRefusal | undefined> {
    if (!isRunFolderName(job.run.id))
      return `malformed: ${JSON.stringify(job.run.id)} is no name for a folder`
    if (job.kind === 'follow-up' && (job.pull === undefined || job.followUp === undefined))
      return 'malformed: a follow-up needs pull and followUp'
    if (job.kind !== 'publish' && !hasAgent(job)) return 'malformed: a job needs an agent'
    if (this.#resumed.has(job.run.id)) return 'busy: a person is in the sandbox of this run'
    // Its sandbox is there, and a full disk is no reason to keep its work from the code host.
    return job.kind === 'publish' ? undefined : this.#findDiskRefusal(isProtected)
  }

  /** Makes room first if the disk lacks it. A deletion that takes too long goes on after the answer. */
  async #findDiskRefusal(isProtected: IsProtected): Promise<DispatchRefusal | undefined> {
    if ((await this.#findShortage()) === undefined) return undefined
    const pass = this.#spaceReclaimer.run((runId) => this.#isBusy(runId, isProtected))
    const isOver = await endsWithin(this.#dependencies.clock, DISPATCH_RECLAIM_MS_MAX, pass)
    const shortage = await this.#findShortage()
    if (shortage === undefined) return undefined
    if (!isOver) return 'busy: the disk is full, and retained sandboxes are being deleted to make room'
    const reason = await pass
    return `disk: ${shortage}${reason === undefined ? '' : `; ${reason}`}`
  }

  async #findShortage(): Promise<string | undefined> {
    return describeShortage(await this.#dependencies.freeSpace(), FREE_BYTES_TO_START_MIN)
  }

  #isBusy(runId: string, isProtected: IsProtected): boolean {
    return this.#executions.has(runId) || this.#resumed.has(runId) || isProtected(runId)
  }

  start(
    request: ExecutionRequest,
    reporter: ExecutionReporter,
    onProgress: (progress: Progress) => void,
  ): Execution {
    const { job } = request
    const { id } = job.run
    const options = {
      dependencies: this.#dependencies,
      sandboxes: this.#sandboxes,
      reporter,
      onProgress,
      onGone: () => {
        if (this.#executions.get(id) === execution) this.#executions.delete(id)
      },
    }
    const execution: Execution = hasAgent(job)
      ? new RunExecution({ ...options, request: { ...request, job } })
      : new PublishExecution({ ...options, request })
    this.#executions.set(id, execution)
    return execution
  }

  async recover(
    ended: EndedExecution,
    { agentSessionId, pushed, sandbox }: Progress,
    hours: number,
  ): Promise<RecoveredOutputs> {
    const { runId } = ended
    if (this.#sandboxes.isUnused(runId)) {
      await this.#sandboxes.discard(runId)
      return {}
    }
    const spent = await this.#readSpending(ended)
    const isUnpublished = await this.#hasUnpublished(runId)
    const kept = isUnpublished ? this.#sandboxes.get(runId)?.retainedUntil : undefined
    // An execution that only publishes leaves the sandbox as long as it was to be kept before.
    // Without finished work the next attempt can go on only in a session of the agent.
    const isOfNoUse = ended.isLeaseLost === true && agentSessionId === undefined && !isUnpublished
    const retention = {
      hours: isOfNoUse ? 0 : hours,
      unpushed: pushed === undefined,
      sessionId: agentSessionId,
    }
    const retainedUntil = kept ?? (await this.#sandboxes.retain(runId, retention))
    if (retainedUntil === undefined) return spent
    const { sandboxProvider: provider } = this.#dependencies
    const unpublished = isUnpublished ? { unpublished: true } : {}
    return { ...spent, sandbox: { ...sandbox, provider, id: runId, retainedUntil, ...unpublished } }
  }

  /** A note that cannot be read is of finished work too: a job that only publishes reads it again later. */
  async #hasUnpublished(runId: string): Promise<boolean> {
    const note = await unpublishedWork.read(this.#sandboxes.foldersOf(runId))
    if (note.ok) return note.value !== undefined
    this.#dependencies.log.warn({ runId, reason: note.refusal.message }, 'a sandbox is kept for its work')
    return true
  }

  /** The agent's exit report is lost, so read its transcripts on the disk. */
  async #readSpending({
    leaseId,
    runId,
  }: EndedExecution): Promise<Pick<RecoveredOutputs, 'costs' | 'usage'>> {
    const agent = this.#sandboxes.get(runId)?.agent
    // The record still names the execution before one that never started its agent. Older records name none.
    if (agent === undefined || (agent.leaseId ?? leaseId) !== leaseId) return {}
    try {
      const { home } = this.#sandboxes.foldersOf(runId)
      const { provider, session, since } = agent
      const files = openAgentFiles(home, undefined, this.#dependencies.clock.now())
      const { usage, cost } = await readUsageAndCost(
        this.#dependencies.drivers[provider],
        files,
        session,
        since,
      )
      return { usage, ...(cost === undefined ? {} : { costs: [cost] }) }
    } catch (error) {
      this.#dependencies.log.warn({ err: error, runId }, 'the usage of an interrupted run could not be read')
      return {}
    }
  }

  async boot(request: BootRequest): Promise<Result<BootedSandbox>> {
    const { runId } = request
    if (this.#executions.has(runId))
      return no('conflict', 'an execution uses the sandbox of this run; try again when it has ended')
    if (this.#resumed.has(runId)) return no('conflict', 'the sandbox of this run is booted already')
    const onClosed = () => void this.#resumed.delete(runId)
    // After any failure the sandbox must be bootable again.
    const booting = resumeSandbox(request, {
      dependencies: this.#dependencies,
      sandboxes: this.#sandboxes,
      onClosed,
    }).catch((error: unknown) => {
      this.#dependencies.log.error({ err: error, runId }, 'booting a sandbox failed unexpectedly')
      return no('failed', 'the sandbox could not be booted; the worker’s log says why')
    })
    this.#resumed.set(runId, booting)
    const result = await booting
    if (!result.ok) onClosed()
    return result
  }

  /** Closes the sandbox first if a person is in it; whoever discards it was warned about that. */
  async discard(runId: string): Promise<void> {
    await this.#closeResumed(runId)
    if (!this.#executions.has(runId)) await this.#sandboxes.discard(runId)
  }

  async #closeResumed(runId: string): Promise<void> {
    const booted = await this.#resumed.get(runId)
    if (booted?.ok === true) await booted.value.close()
  }

  reclaim(isProtected: IsProtected): Promise<readonly ExpiredSandbox[]> {
    return this.#sandboxes.reclaim((runId) => this.#isBusy(runId, isProtected))
  }

  async close(): Promise<void> {
    await endsWithin(this.#dependencies.clock, CLOSE_MS_MAX, this.#closeSandboxes())
    await this.#dependencies.onClosed()
  }

  async #closeSandboxes(): Promise<void> {
    await Promise.all([...this.#resumed.keys()].map((runId) => this.#closeResumed(runId)))
    await this.#sandboxes.waitUntilSettled()
  }
}

/** Waits for `work`, but no longer than `ms`; returns whether it has ended. */
async function endsWithin(clock: Pick<Clock, 'after'>, ms: number, work: Promise<unknown>): Promise<boolean> {
  let cancel: Cancel = () => {}
  const timeout = new Promise<false>((resolve) => {
    cancel = clock.after(ms, () => resolve(false))
  })
  try {
    return await Promise.race([work.then(() => true), timeout])
  } finally {
    cancel()
  }
}
