/**
 * `resumeSandbox` boots a retained sandbox for a person: the same checkout and isolation as for the agent, a new home,
 * and the agent's session in a terminal, with credentials for this boot alone.
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
} from '../../../core/daemon/terminal.ts'
import type { Cancel } from '../../../core/ports/clock.ts'
import { no, type Refused, type Result, yes } from '../../../core/result.ts'
import type { UsageSnapshot } from '../../../protocol/frames.ts'
import type { AgentCommand, AgentDriver } from '../../agents/agent.ts'
import { openAgentFiles } from '../../agents/agent-files.ts'
import { PROGRAMS_INSIDE } from '../../sandbox/inside-paths.ts'
import { type AgentAccess, hostsOfAgent, openAgentAccess, vendorRules } from '../agent/agent-access.ts'
import { withSeedFiles } from '../agent/agent-start.ts'
import type { SandboxRecord } from '../disk/sandbox-record.ts'
import type { Sandboxes } from '../disk/sandboxes.ts'
import type { ExecutorDependencies } from '../execution/executor-dependencies.ts'
import { SandboxSession } from '../sandbox-session.ts'
import { SandboxTerminal } from './terminal-session.ts'

export interface ResumeSandboxOptions {
  readonly dependencies: ExecutorDependencies
  readonly sandboxes: Sandboxes
  /** Called when every process has ended and only the disk is left. */
  readonly onClosed: () => void
}

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
  const session = await findNewestSession(options, resumable.value)
  return openResumedSandbox(options, resumable.value, request, session)
}

// ---- permission --------------------------------------------------------------------------------------------------

export interface ResumableSandbox {
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
  { clock, retentionClock, drivers }: ExecutorDependencies,
): Result<ResumableSandbox> {
  if (record === undefined) return GONE
  const { agent, sessionId, retainedUntil } = record
  if (retainedUntil === undefined)
    return no('conflict', 'the run has not been wound up on this worker; try again in a while')
  if (Date.parse(retainedUntil) <= retentionClock.now()) return GONE
  if (agent === undefined || sessionId === undefined) return no('invalid', 'this run has no agent session')
  const driver = drivers[agent.provider]
  if (driver.buildTerminalCommand === undefined)
    return no('invalid', `a session of ${agent.provider} cannot be gone on with at a terminal`)
  const since = record.retainedAt ?? new Date(clock.now()).toISOString()
  return yes({ record, driver, sessionId, since })
}

// ---- the session ---------------------------------------------------------------------------------------------------

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

/** The agent's command, and how it reaches its model. */
export interface SessionCommand extends AgentCommand {
  readonly modelSocket?: string
}

async function buildSessionCommand(
  { credential, modelApiUrl, modelSocket }: AgentAccess,
  { record, driver }: ResumableSandbox,
  resume: string,
): Promise<Result<SessionCommand>> {
  const { agent } = record
  const program = await driver.locate()
  if (program.is === 'missing' && agent?.command === undefined) return no('failed', program.reason)
  const task = {
    agent: agent ?? {},
    resume,
    environment: {},
    ...(credential === undefined ? {} : { credential }),
    ...(modelApiUrl === undefined ? {} : { modelApiUrl }),
  }
  const command = driver.buildTerminalCommand?.(task, program)
  if (command === undefined) return no('invalid', 'this run has no agent session')
  return yes({ ...command, ...(modelSocket === undefined ? {} : { modelSocket }) })
}

// ---- the sandbox ---------------------------------------------------------------------------------------------------

async function openResumedSandbox(
  options: ResumeSandboxOptions,
  resumable: ResumableSandbox,
  { credentials }: BootRequest,
  resume: string,
): Promise<Result<BootedSandbox>> {
  const { dependencies, sandboxes } = options
  const { record, driver } = resumable
  const parts: { close(): Promise<void> }[] = []
  const refuse = async (refused: Refused): Promise<Refused> => {
    await Promise.all(parts.map((part) => part.close()))
    return refused
  }
  try {
    const access = await openAgentAccess({
      dependencies,
      provider: driver.provider,
      credentials,
      folders: { ...sandboxes.foldersOf(record.runId), number: record.number },
      // A person at the terminal may choose another model.
      rules: vendorRules(credentials, record.walls?.network ?? 'none'),
      log: (line) => dependencies.log.debug({ runId: record.runId }, line),
    })
    if (!access.ok) return access
    parts.push(access.value)
    const command = await buildSessionCommand(access.value, resumable, resume)
    if (!command.ok) return await refuse(command)
    await sandboxes.renewHome(record.runId, driver.transcripts)
    const session = await openSession(options, record, hostsOfAgent(driver.provider, credentials))
    session.closeWith(access.value)
    return yes(new LocalResumedSandbox(options, resumable, command.value, session))
  } catch (error) {
    options.dependencies.log.warn(
      { err: error, runId: resumable.record.runId },
      'a sandbox could not be booted',
    )
    return refuse(no('failed', 'the sandbox could not be booted; the worker’s log says why'))
  }
}

async function openSession(
  { dependencies, sandboxes }: ResumeSandboxOptions,
  record: SandboxRecord,
  agentHosts: readonly string[],
): Promise<SandboxSession> {
  const { runId, number, walls } = record
  const folders = { ...sandboxes.foldersOf(runId), number }
  const egress = await dependencies.openEgress({
    network: walls?.network ?? 'none',
    allowedHosts: [...(walls?.allowedHosts ?? []), ...agentHosts],
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

// ---- the booted sandbox --------------------------------------------------------------------------------------------

/** Time for an agent to write its last message and its usage into the transcript after a hang-up; then it is killed. */
const HANG_UP_MS_MAX = 1_500
/** Limits how long `close` reads transcripts; transcripts of several days take seconds. */
const USAGE_MS_MAX = 10_000

/**
 * A booted sandbox of this machine: its one terminal, and the usage when it is closed.
 *
 * `close` lets the agent write its last message, kills every process and reads the usage of the person's sessions.
 */
class LocalResumedSandbox implements BootedSandbox {
  readonly #options: ResumeSandboxOptions
  readonly #resumable: ResumableSandbox
  readonly #sandboxSession: SandboxSession
  /** May contain the person's credentials; dropped as soon as the terminal is opened. */
  #command: SessionCommand | undefined
  #terminal: SandboxTerminal | undefined
  #closing: Promise<readonly UsageSnapshot[]> | undefined

  constructor(
    options: ResumeSandboxOptions,
    resumable: ResumableSandbox,
    command: SessionCommand,
    sandboxSession: SandboxSession,
  ) {
    this.#options = options
    this.#resumable = resumable
    this.#command = command
    this.#sandboxSession = sandboxSession
  }

  get sessionId(): string {
    return this.#resumable.sessionId
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

  #start({ modelSocket, ...agent }: SessionCommand, cols: number, rows: number) {
    const { stdin: _, command, ...rest } = withSeedFiles(agent)
    const terminal = [`${PROGRAMS_INSIDE}/terminal`, String(cols), String(rows)]
    return this.#sandboxSession.start({
      ...rest,
      command: [...terminal, ...command],
      openInput: true,
      withEgress: true,
      ...(modelSocket === undefined ? {} : { modelSocket }),
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
