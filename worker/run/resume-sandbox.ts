/**
 * `resumeSandbox` boots a retained sandbox for a person: the same folders and the same isolation as for the agent, and
 * the agent's session in a terminal, with credentials for this boot alone.
 *
 * No process runs in the sandbox before the terminal is opened or after the sandbox is closed. Credentials exist only
 * inside, in memory, so none is left on disk even if this process is killed. The caller makes sure that no execution
 * uses the sandbox meanwhile.
 */
import { stat } from 'node:fs/promises'
import type {
  BootedSandbox,
  BootRequest,
  TerminalSession,
  TerminalSessionListener,
  TerminalSize,
} from '../../core/daemon/terminal.ts'
import type { Cancel } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import type { AgentCommand, AgentDriver } from '../agents/agent.ts'
import { openAgentFiles } from '../agents/agent-files.ts'
import { withSeedFiles } from './agent-start.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { PROGRAMS_INSIDE } from './sandbox-paths.ts'
import { SandboxSession } from './sandbox-session.ts'
import type { Sandboxes, SandboxRecord } from './sandboxes.ts'
import { SandboxTerminal } from './terminal-session.ts'

export interface ResumeSandboxOptions {
  readonly dependencies: ExecutorDependencies
  readonly sandboxes: Sandboxes
  /** Called when every process has ended and only the disk is left. */
  readonly onClosed: () => void
}

/** Time for an agent to write its last message and its usage into the transcript after a hang-up; then it is killed. */
const HANG_UP_MS_MAX = 1_500
/** Limits how long `close` reads transcripts; transcripts of several days take seconds. */
const USAGE_MS_MAX = 10_000
/** Limits how long booting searches for the latest session. */
const NEWEST_SESSION_MS_MAX = 3_000

export async function resumeSandbox(
  request: BootRequest,
  options: ResumeSandboxOptions,
): Promise<Result<BootedSandbox>> {
  const { dependencies, sandboxes } = options
  const resumable = findResumable(sandboxes.get(request.runId), dependencies)
  if (!resumable.ok) return resumable
  const { work } = sandboxes.foldersOf(request.runId)
  const isThere = await stat(work).then(
    (stats) => stats.isDirectory(),
    (error: NodeJS.ErrnoException) => {
      // `gone` is final, so return it only if the folder is known to be missing.
      if (error.code !== 'ENOENT') throw error
      return false
    },
  )
  if (!isThere) return GONE
  const command = await buildSessionCommand(
    request,
    resumable.value,
    await findNewestSession(options, resumable.value),
  )
  if (!command.ok) return command
  return openResumedSandbox(options, resumable.value, command.value)
}

// ---- permission --------------------------------------------------------------------------------------------------

interface ResumableSandbox {
  readonly record: SandboxRecord
  readonly driver: AgentDriver
  /** The run's own session: usage of every session that the person opens is counted with it. */
  readonly sessionId: string
  /** Usage from this instant on is the person's, not the run's. */
  readonly since: string
}

const GONE = no('gone', 'the sandbox of this run is not kept here any more')

function findResumable(
  record: SandboxRecord | undefined,
  { clock, drivers }: ExecutorDependencies,
): Result<ResumableSandbox> {
  if (record === undefined) return GONE
  const { agent, sessionId, retainedUntil } = record
  if (retainedUntil === undefined)
    return no('conflict', 'the run has not been wound up on this worker; try again in a while')
  if (Date.parse(retainedUntil) <= clock.now()) return GONE
  if (agent === undefined || sessionId === undefined) return no('invalid', 'this run has no agent session')
  const driver = drivers[agent.provider]
  if (driver.buildTerminalCommand === undefined)
    return no('invalid', `a session of ${agent.provider} cannot be gone on with at a terminal`)
  const since = record.retainedAt ?? new Date(clock.now()).toISOString()
  return yes({ record, driver, sessionId, since })
}

/** The session in which the agent answered last; the run's own session if the search takes too long. */
async function findNewestSession(
  { dependencies, sandboxes }: ResumeSandboxOptions,
  { record, driver, sessionId }: ResumableSandbox,
): Promise<string> {
  const until = dependencies.clock.monotonic() + NEWEST_SESSION_MS_MAX
  const mayContinue = () => dependencies.clock.monotonic() < until
  try {
    const files = openAgentFiles(sandboxes.foldersOf(record.runId).home, mayContinue)
    const newest = (await driver.findLatestSession?.(files, sessionId)) ?? sessionId
    // An interrupted search proves nothing.
    return mayContinue() ? newest : sessionId
  } catch (error) {
    dependencies.log.warn(
      { err: error, runId: record.runId },
      'the latest agent session could not be determined; resuming the session of the run',
    )
    return sessionId
  }
}

async function buildSessionCommand(
  { credentials }: BootRequest,
  { record, driver }: ResumableSandbox,
  resume: string,
): Promise<Result<AgentCommand>> {
  const { agent } = record
  const program = await driver.locate()
  if (program.is === 'missing' && agent?.command === undefined) return no('failed', program.reason)
  const task = {
    agent: agent ?? {},
    resume,
    environment: {},
    ...(credentials.agent === undefined ? {} : { credential: credentials.agent }),
  }
  const command = driver.buildTerminalCommand?.(task, program)
  return command === undefined ? no('invalid', 'this run has no agent session') : yes(command)
}

// ---- the sandbox ---------------------------------------------------------------------------------------------------

async function openResumedSandbox(
  options: ResumeSandboxOptions,
  resumable: ResumableSandbox,
  command: AgentCommand,
): Promise<Result<BootedSandbox>> {
  try {
    return yes(
      new LocalResumedSandbox(options, resumable, command, await openSession(options, resumable.record)),
    )
  } catch (error) {
    options.dependencies.log.warn(
      { err: error, runId: resumable.record.runId },
      'a sandbox could not be booted',
    )
    return no('failed', 'the sandbox could not be booted; the worker’s log says why')
  }
}

async function openSession(
  { dependencies, sandboxes }: ResumeSandboxOptions,
  record: SandboxRecord,
): Promise<SandboxSession> {
  const { runId, number, walls } = record
  const folders = { ...sandboxes.foldersOf(runId), number }
  const egress = await dependencies.openEgress({
    network: walls?.network ?? 'none',
    allowedHosts: walls?.allowedHosts ?? [],
    folder: folders.root,
    ...(dependencies.isRoot ? { owner: dependencies.userFor(number) } : {}),
    clock: dependencies.clock,
    // The run and its log are closed, so the worker's log takes these lines.
    log: (line) => dependencies.log.debug({ runId }, line),
  })
  const reporter = { report: () => {}, waitForCapacity: async () => {} }
  return new SandboxSession({
    dependencies,
    job: { run: { id: runId }, ...(walls === undefined ? {} : { sandbox: walls }) },
    folders,
    egress,
    reporter,
  })
}

class LocalResumedSandbox implements BootedSandbox {
  readonly #options: ResumeSandboxOptions
  readonly #resumable: ResumableSandbox
  readonly #sandboxSession: SandboxSession
  /** Contains the person's credentials; dropped as soon as the terminal is opened. */
  #command: AgentCommand | undefined
  #terminal: SandboxTerminal | undefined
  #closing: Promise<readonly UsageSnapshot[]> | undefined

  constructor(
    options: ResumeSandboxOptions,
    resumable: ResumableSandbox,
    command: AgentCommand,
    sandboxSession: SandboxSession,
  ) {
    this.#options = options
    this.#resumable = resumable
    this.#command = command
    this.#sandboxSession = sandboxSession
  }

  open({ cols, rows }: TerminalSize, listener: TerminalSessionListener): TerminalSession {
    if (this.#terminal !== undefined) throw new Error('a booted sandbox has one terminal')
    const agentCommand = this.#command
    this.#command = undefined
    const process =
      agentCommand === undefined || this.#closing !== undefined
        ? undefined
        : this.#start(agentCommand, cols, rows)
    if (process === undefined) return endedSession(listener)
    this.#terminal = new SandboxTerminal(process, listener)
    // Mark it now and not only on close: this process may die before.
    void this.#markVisited()
    return this.#terminal
  }

  #start(agent: AgentCommand, cols: number, rows: number) {
    const { stdin: _, command, ...rest } = withSeedFiles(agent)
    const terminal = [`${PROGRAMS_INSIDE}/terminal`, String(cols), String(rows)]
    return this.#sandboxSession.start({
      ...rest,
      command: [...terminal, ...command],
      openInput: true,
      withEgress: true,
    })
  }

  close(): Promise<readonly UsageSnapshot[]> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<readonly UsageSnapshot[]> {
    this.#command = undefined
    await this.#hangUp()
    await this.#sandboxSession.close().catch((error) => this.#logFailure(error))
    const usage = await this.#readUsage()
    if (this.#terminal !== undefined) await this.#markVisited()
    this.#options.onClosed()
    return usage
  }

  #markVisited(): Promise<void> {
    const { sandboxes } = this.#options
    return sandboxes.markVisited(this.#resumable.record.runId).catch((error) => this.#logFailure(error))
  }

  #logFailure(error: unknown): void {
    const { runId } = this.#resumable.record
    this.#options.dependencies.log.warn({ err: error, runId }, 'a step around a booted sandbox failed')
  }

  async #hangUp(): Promise<void> {
    if (this.#terminal === undefined) return
    this.#terminal.hangUp()
    let cancel: Cancel = () => {}
    const timeout = new Promise<void>((resolve) => {
      cancel = this.#options.dependencies.clock.after(HANG_UP_MS_MAX, resolve)
    })
    await Promise.race([this.#sandboxSession.waitUntilEmpty(), timeout])
    cancel()
  }

  async #readUsage(): Promise<readonly UsageSnapshot[]> {
    const { dependencies } = this.#options
    const { driver, sessionId, since, record } = this.#resumable
    const until = dependencies.clock.monotonic() + USAGE_MS_MAX
    try {
      const mayContinue = () => dependencies.clock.monotonic() < until
      // The person may have started further sessions, and `since` counts them in.
      const files = openAgentFiles(this.#sandboxSession.folders.home, mayContinue, dependencies.clock.now())
      const usage = await driver.readUsage(files, sessionId, since)
      // Usage of the run's own subagents was reported with the run, and the host limits the number of snapshots.
      return usage.filter(
        ({ subagentId, entries }) => subagentId === undefined || hasEntrySince(entries, since),
      )
    } catch (error) {
      dependencies.log.warn(
        { err: error, runId: record.runId },
        'the usage of a resumed session could not be read',
      )
      return []
    }
  }
}

const hasEntrySince = (entries: UsageSnapshot['entries'], since: string): boolean =>
  entries.some(({ at }) => at >= since)

const KILLED = 137

/** A session that ends before it starts; the listener hears of it asynchronously, as always. */
function endedSession(listener: TerminalSessionListener): TerminalSession {
  void Promise.resolve().then(() => {
    listener.onOutput('\r\nthe sandbox was closed\r\n')
    listener.onExit(KILLED)
  })
  return { input: () => {}, resize: () => {}, pause: () => {}, resume: () => {} }
}
