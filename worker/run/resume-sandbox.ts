/**
 * `resumeSandbox` boots a retained sandbox for a person: the same checkout and isolation as for the agent, a new home,
 * and the agent's session in a terminal, with credentials for this boot alone.
 *
 * No process runs in the sandbox before the terminal is opened or after the sandbox is closed. Credentials exist only
 * inside, in memory, so none is left on disk even if this process is killed. The caller makes sure that no execution
 * uses the sandbox meanwhile.
 */
import { stat } from 'node:fs/promises'
import type { BootedSandbox, BootRequest } from '../../core/daemon/terminal.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import type { AgentCommand, AgentDriver } from '../agents/agent.ts'
import { openAgentFiles } from '../agents/agent-files.ts'
import { type AgentAccess, hostsOfAgent, openAgentAccess } from './agent-access.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { LocalResumedSandbox } from './local-resumed-sandbox.ts'
import { vendorRules } from './model-use.ts'
import { SandboxSession } from './sandbox-session.ts'
import type { Sandboxes, SandboxRecord } from './sandboxes.ts'

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
