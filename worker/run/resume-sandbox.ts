/**
 * A retained sandbox booted for a person: the same folders and the same walls as when the agent worked there, and the
 * agent's session in a terminal, with credentials that came for this alone.
 *
 * Nothing runs in it before somebody opens the terminal, and nothing when it is closed. Credentials are in files that
 * exist only inside, and the agent's own folder is in memory there: so none of it is left, also when this process is
 * killed meanwhile.
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
  /** Nothing of it is left but its disk. */
  readonly onClosed: () => void
}

/** An agent that is hung up puts its last words into its transcript, and what they cost; then it is killed. */
const HANG_UP_MS_MAX = 1_500
/** Transcripts of days are read in seconds; whoever closes it does not wait for longer. */
const USAGE_MS_MAX = 10_000
/** And whoever has it booted for so long. */
const NEWEST_SESSION_MS_MAX = 3_000

/** Not while something is executed there, which the caller knows. */
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
      // Gone is for good: whoever can't look does not know.
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

// ---- may it be ---------------------------------------------------------------------------------------------------

interface ResumableSandbox {
  readonly record: SandboxRecord
  readonly driver: AgentDriver
  /** The run's own: what a person uses stands with it, whichever he is in. */
  readonly sessionId: string
  /** An instant from which on whatever is used in it, a person uses. */
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

/** Where he was last, as far as that is found out in time. */
async function findNewestSession(
  { dependencies, sandboxes }: ResumeSandboxOptions,
  { record, driver, sessionId }: ResumableSandbox,
): Promise<string> {
  const until = dependencies.clock.monotonic() + NEWEST_SESSION_MS_MAX
  const mayContinue = () => dependencies.clock.monotonic() < until
  try {
    const files = openAgentFiles(sandboxes.foldersOf(record.runId).home, mayContinue)
    const newest = (await driver.findLatestSession?.(files, sessionId)) ?? sessionId
    // What was read in part tells nothing.
    return mayContinue() ? newest : sessionId
  } catch (error) {
    dependencies.log.warn(
      { err: error, runId: record.runId },
      'it could not be found out which session is the newest',
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
  const resumable = await driver.locate()
  if (resumable.is === 'missing' && agent?.command === undefined) return no('failed', resumable.reason)
  const task = {
    agent: agent ?? {},
    resume,
    environment: {},
    ...(credentials.agent === undefined ? {} : { credential: credentials.agent }),
  }
  const command = driver.buildTerminalCommand?.(task, resumable)
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
    // The run is over, and so is its log.
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
  /** Holds what the person is given; forgotten once it is handed on. */
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
    // Now, and not only when he leaves: this process may not live to see that.
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
      // He may have begun other sessions there, and they are among what this one has cost.
      const files = openAgentFiles(this.#sandboxSession.folders.home, mayContinue, dependencies.clock.now())
      const usage = await driver.readUsage(files, sessionId, since)
      // Of its nested agents most were the run's, and told with it; a host takes only so many at once.
      return usage.filter(
        ({ subagentId, entries }) => subagentId === undefined || hasEntrySince(entries, since),
      )
    } catch (error) {
      dependencies.log.warn({ err: error, runId: record.runId }, 'what a session has spent could not be read')
      return []
    }
  }
}

const hasEntrySince = (entries: UsageSnapshot['entries'], since: string): boolean =>
  entries.some(({ at }) => at >= since)

const KILLED = 137

/** Closed before it began. Told later, as everything else is. */
function endedSession(listener: TerminalSessionListener): TerminalSession {
  void Promise.resolve().then(() => {
    listener.onOutput('\r\nthe sandbox was closed\r\n')
    listener.onExit(KILLED)
  })
  return { input: () => {}, resize: () => {}, pause: () => {}, resume: () => {} }
}
