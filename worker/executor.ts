/**
 * The worker's hands: what the daemon's lives ask for, done on this machine.
 *
 * All that belongs to a run lies in one folder of its own. Which runs are being executed is known here only to keep
 * their disk from being taken away; everything else about them is the daemon's to know.
 */
import { chmod, chown, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type {
  DispatchRefusal,
  Execution,
  ExecutionReporter,
  ExecutionRequest,
  Executor,
  Progress,
  RecoveredOutputs,
} from '../core/daemon/ports.ts'
import type { BootedSandbox, BootRequest } from '../core/daemon/terminal.ts'
import type { Cancel } from '../core/ports.ts'
import { no, type Result } from '../core/result.ts'
import type { Job } from '../protocol/frames.ts'
import { openAgentFiles } from './agents/agent-files.ts'
import { readUsageAndCost } from './run/agent-start.ts'
import { RunExecution } from './run/execution.ts'
import type { ExecutorDependencies } from './run/executor-dependencies.ts'
import { resumeSandbox } from './run/resume-sandbox.ts'
import { isRunFolderName, Sandboxes } from './run/sandboxes.ts'

export interface ClosableExecutor extends Executor {
  /** What is on its way to the trash gets a moment; the rest goes at the next start. */
  close(): Promise<void>
}

/** Of a worker that ends, for deleting what nobody will miss. */
const CLOSE_MS_MAX = 2_000
/** What a checkout, a setup and an agent may need at the least. */
const FREE_BYTES_TO_START_MIN = 1024 * 1024 * 1024

export async function openExecutor(dependencies: ExecutorDependencies): Promise<ClosableExecutor> {
  const [folder, trash] = [join(dependencies.folder, 'sandboxes'), join(dependencies.folder, 'trash')]
  const sources = join(dependencies.folder, 'sources')
  await makeFolders(dependencies, [folder, trash, sources, join(sources, 'repositories')])
  const { clock, log } = dependencies
  const sandboxes = await Sandboxes.open({
    folder,
    trash,
    clock,
    log,
    ownerFor: (number) => (dependencies.isRoot ? dependencies.userFor(number) : undefined),
    firstNumber: dependencies.firstNumber,
    deleteFolder: dependencies.removeFolder,
  })
  return new LocalExecutor(dependencies, sandboxes)
}

/** A sandbox's user passes through on the way to his own, and can list nothing. */
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
  readonly #executions = new Map<string, RunExecution>()
  /** From the first step of booting until nothing but the disk is left. */
  readonly #resumed = new Map<string, Promise<Result<BootedSandbox>>>()

  constructor(dependencies: ExecutorDependencies, sandboxes: Sandboxes) {
    this.#dependencies = dependencies
    this.#sandboxes = sandboxes
  }

  async refusalOf(job: Job): Promise<DispatchRefusal | undefined> {
    if (!isRunFolderName(job.run.id))
      return `malformed: ${JSON.stringify(job.run.id)} is no name for a folder`
    if (job.kind === 'follow-up' && (job.pull === undefined || job.followUp === undefined))
      return 'malformed: a follow-up needs pull and followUp'
    const codehost = this.#dependencies.codehostFor(job)
    if (!codehost.ok) return `malformed: ${codehost.refusal.message}`
    if (this.#resumed.has(job.run.id)) return 'busy: a person is in the sandbox of this run'
    const free = await this.#dependencies.freeBytes()
    if (free >= FREE_BYTES_TO_START_MIN) return undefined
    return `disk: room for ${Math.floor(free / 1024 / 1024)} MiB, a run needs ${FREE_BYTES_TO_START_MIN / 1024 / 1024}`
  }

  start(
    request: ExecutionRequest,
    reporter: ExecutionReporter,
    progressed: (progress: Progress) => void,
  ): Execution {
    const { id } = request.job.run
    const execution: RunExecution = new RunExecution({
      dependencies: this.#dependencies,
      sandboxes: this.#sandboxes,
      request,
      reporter,
      onProgress: progressed,
      onGone: () => {
        if (this.#executions.get(id) === execution) this.#executions.delete(id)
      },
    })
    this.#executions.set(id, execution)
    return execution
  }

  async recover(
    runId: string,
    { agentSessionId, pushed, sandbox }: Progress,
    hours: number,
  ): Promise<RecoveredOutputs> {
    const spent = await this.#readSpending(runId)
    const retainedUntil = await this.#sandboxes.retain(runId, {
      hours,
      unpushed: pushed === undefined,
      sessionId: agentSessionId,
    })
    return retainedUntil === undefined
      ? spent
      : { ...spent, sandbox: { ...sandbox, provider: 'bwrap', id: runId, retainedUntil } }
  }

  /** Nobody heard the agent's last word, but its own records lie on the disk. */
  async #readSpending(runId: string): Promise<Pick<RecoveredOutputs, 'costs' | 'usage'>> {
    const agent = this.#sandboxes.get(runId)?.agent
    if (agent === undefined) return {}
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
      this.#dependencies.log.warn(
        { err: error, runId },
        'what an interrupted run has spent could not be read',
      )
      return {}
    }
  }

  async boot(request: BootRequest): Promise<Result<BootedSandbox>> {
    const { runId } = request
    if (this.#executions.has(runId))
      return no(
        'conflict',
        'something is being executed in the sandbox of this run; try again when that is over',
      )
    if (this.#resumed.has(runId)) return no('conflict', 'the sandbox of this run is booted already')
    const closed = () => void this.#resumed.delete(runId)
    // Whatever goes wrong, it must be possible to try again.
    const booting = resumeSandbox(request, {
      dependencies: this.#dependencies,
      sandboxes: this.#sandboxes,
      onClosed: closed,
    }).catch((error: unknown) => {
      this.#dependencies.log.error({ err: error, runId }, 'booting a sandbox failed unforeseen')
      return no('failed', 'the sandbox could not be booted; the worker’s log says why')
    })
    this.#resumed.set(runId, booting)
    const answer = await booting
    if (!answer.ok) closed()
    return answer
  }

  /** A person in it is sent away: whoever has it discarded was told about him. */
  async discard(runId: string): Promise<void> {
    await this.#closeResumed(runId)
    if (!this.#executions.has(runId)) await this.#sandboxes.discard(runId)
  }

  async #closeResumed(runId: string): Promise<void> {
    const booted = await this.#resumed.get(runId)
    if (booted?.ok === true) await booted.value.close()
  }

  async reclaim(isClaimed: (runId: string) => boolean): Promise<void> {
    await this.#sandboxes.reclaim(
      (runId) => this.#executions.has(runId) || this.#resumed.has(runId) || isClaimed(runId),
    )
  }

  async close(): Promise<void> {
    let cancel: Cancel = () => {}
    const timeout = new Promise<void>((resolve) => {
      cancel = this.#dependencies.clock.after(CLOSE_MS_MAX, resolve)
    })
    await Promise.race([this.#closeSandboxes(), timeout])
    cancel()
    await this.#dependencies.onClosed()
  }

  async #closeSandboxes(): Promise<void> {
    await Promise.all([...this.#resumed.keys()].map((runId) => this.#closeResumed(runId)))
    await this.#sandboxes.waitUntilSettled()
  }
}
