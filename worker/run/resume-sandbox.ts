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
import { withSeeds } from './agent-start.ts'
import type { HandsParts } from './dependencies.ts'
import { OWN_PROGRAMS } from './sandbox-paths.ts'
import { Room } from './sandbox-session.ts'
import type { Sandboxes, SandboxRecord } from './sandboxes.ts'
import { BootedSession } from './terminal-session.ts'

export interface BootParts {
  readonly hands: HandsParts
  readonly sandboxes: Sandboxes
  /** Nothing of it is left but its disk. */
  readonly closed: () => void
}

/** An agent that is hung up puts its last words into its transcript, and what they cost; then it is killed. */
const HANG_UP_MS_MAX = 1_500
/** Transcripts of days are read in seconds; whoever closes it does not wait for longer. */
const USAGE_MS_MAX = 10_000
/** And whoever has it booted for so long. */
const NEWEST_MS_MAX = 3_000

/** Not while something is executed there, which the caller knows. */
export async function bootSandbox(order: BootRequest, parts: BootParts): Promise<Result<BootedSandbox>> {
  const { hands, sandboxes } = parts
  const found = bootable(sandboxes.get(order.runId), hands)
  if (!found.ok) return found
  const { work } = sandboxes.foldersOf(order.runId)
  const isThere = await stat(work).then(
    (stats) => stats.isDirectory(),
    (error: NodeJS.ErrnoException) => {
      // Gone is for good: whoever can't look does not know.
      if (error.code !== 'ENOENT') throw error
      return false
    },
  )
  if (!isThere) return GONE
  const command = await commandFor(order, found.value, await newestIn(parts, found.value))
  if (!command.ok) return command
  return makeBooted(parts, found.value, command.value)
}

// ---- may it be ---------------------------------------------------------------------------------------------------

interface Found {
  readonly record: SandboxRecord
  readonly driver: AgentDriver
  /** The run's own: what a person uses stands with it, whichever he is in. */
  readonly sessionId: string
  /** An instant from which on whatever is used in it, a person uses. */
  readonly since: string
}

const GONE = no('gone', 'the sandbox of this run is not kept here any more')

function bootable(record: SandboxRecord | undefined, { clock, drivers }: HandsParts): Result<Found> {
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
async function newestIn(
  { hands, sandboxes }: BootParts,
  { record, driver, sessionId }: Found,
): Promise<string> {
  const until = hands.clock.monotonic() + NEWEST_MS_MAX
  const inTime = () => hands.clock.monotonic() < until
  try {
    const files = openAgentFiles(sandboxes.foldersOf(record.runId).home, inTime)
    const newest = (await driver.findLatestSession?.(files, sessionId)) ?? sessionId
    // What was read in part tells nothing.
    return inTime() ? newest : sessionId
  } catch (error) {
    hands.log.warn(
      { err: error, runId: record.runId },
      'it could not be found out which session is the newest',
    )
    return sessionId
  }
}

async function commandFor(
  { credentials }: BootRequest,
  { record, driver }: Found,
  resume: string,
): Promise<Result<AgentCommand>> {
  const { agent } = record
  const found = await driver.locate()
  if (found.is === 'missing' && agent?.command === undefined) return no('failed', found.reason)
  const task = {
    agent: agent ?? {},
    resume,
    environment: {},
    ...(credentials.agent === undefined ? {} : { credential: credentials.agent }),
  }
  const command = driver.buildTerminalCommand?.(task, found)
  return command === undefined ? no('invalid', 'this run has no agent session') : yes(command)
}

// ---- the sandbox ---------------------------------------------------------------------------------------------------

async function makeBooted(
  parts: BootParts,
  found: Found,
  command: AgentCommand,
): Promise<Result<BootedSandbox>> {
  try {
    return yes(new Booted(parts, found, command, await roomFor(parts, found.record)))
  } catch (error) {
    parts.hands.log.warn({ err: error, runId: found.record.runId }, 'a sandbox could not be booted')
    return no('failed', 'the sandbox could not be booted; the worker’s log says why')
  }
}

async function roomFor({ hands, sandboxes }: BootParts, record: SandboxRecord): Promise<Room> {
  const { runId, number, walls } = record
  const folders = { ...sandboxes.foldersOf(runId), number }
  const way = await hands.wayOut({
    network: walls?.network ?? 'none',
    allowedHosts: walls?.allowedHosts ?? [],
    folder: folders.root,
    ...(hands.giveAway ? { owner: hands.slotOf(number) } : {}),
    clock: hands.clock,
    // The run is over, and so is its log.
    log: (line) => hands.log.debug({ runId }, line),
  })
  const reporter = { report: () => {}, waitForCapacity: async () => {} }
  return new Room({
    hands,
    job: { run: { id: runId }, ...(walls === undefined ? {} : { sandbox: walls }) },
    folders,
    way,
    reporter,
  })
}

class Booted implements BootedSandbox {
  readonly #parts: BootParts
  readonly #found: Found
  readonly #room: Room
  /** Holds what the person is given; forgotten once it is handed on. */
  #command: AgentCommand | undefined
  #session: BootedSession | undefined
  #closing: Promise<readonly UsageSnapshot[]> | undefined

  constructor(parts: BootParts, found: Found, command: AgentCommand, room: Room) {
    this.#parts = parts
    this.#found = found
    this.#command = command
    this.#room = room
  }

  open({ cols, rows }: TerminalSize, ear: TerminalSessionListener): TerminalSession {
    if (this.#session !== undefined) throw new Error('a booted sandbox has one terminal')
    const agent = this.#command
    this.#command = undefined
    const process =
      agent === undefined || this.#closing !== undefined ? undefined : this.#start(agent, cols, rows)
    if (process === undefined) return overAtOnce(ear)
    this.#session = new BootedSession(process, ear)
    // Now, and not only when he leaves: this process may not live to see that.
    void this.#visited()
    return this.#session
  }

  #start(agent: AgentCommand, cols: number, rows: number) {
    const { stdin: _, command, ...rest } = withSeeds(agent)
    const terminal = [`${OWN_PROGRAMS}/terminal`, String(cols), String(rows)]
    return this.#room.start({ ...rest, command: [...terminal, ...command], openInput: true, wayOut: true })
  }

  close(): Promise<readonly UsageSnapshot[]> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<readonly UsageSnapshot[]> {
    this.#command = undefined
    await this.#hungUp()
    await this.#room.close().catch((error) => this.#complain(error))
    const usage = await this.#usage()
    if (this.#session !== undefined) await this.#visited()
    this.#parts.closed()
    return usage
  }

  #visited(): Promise<void> {
    const { sandboxes } = this.#parts
    return sandboxes.visited(this.#found.record.runId).catch((error) => this.#complain(error))
  }

  #complain(error: unknown): void {
    const { runId } = this.#found.record
    this.#parts.hands.log.warn({ err: error, runId }, 'a step around a booted sandbox failed')
  }

  async #hungUp(): Promise<void> {
    if (this.#session === undefined) return
    this.#session.leave()
    let cancel: Cancel = () => {}
    const patience = new Promise<void>((resolve) => {
      cancel = this.#parts.hands.clock.after(HANG_UP_MS_MAX, resolve)
    })
    await Promise.race([this.#room.empty(), patience])
    cancel()
  }

  async #usage(): Promise<readonly UsageSnapshot[]> {
    const { hands } = this.#parts
    const { driver, sessionId, since, record } = this.#found
    const until = hands.clock.monotonic() + USAGE_MS_MAX
    try {
      const goesOn = () => hands.clock.monotonic() < until
      // He may have begun other sessions there, and they are among what this one has cost.
      const files = openAgentFiles(this.#room.folders.home, goesOn, hands.clock.now())
      const usage = await driver.readUsage(files, sessionId, since)
      // Of its nested agents most were the run's, and told with it; a host takes only so many at once.
      return usage.filter(({ subagentId, entries }) => subagentId === undefined || isAny(entries, since))
    } catch (error) {
      hands.log.warn({ err: error, runId: record.runId }, 'what a session has spent could not be read')
      return []
    }
  }
}

const isAny = (entries: UsageSnapshot['entries'], since: string): boolean =>
  entries.some(({ at }) => at >= since)

const KILLED = 137

/** Closed before it began. Told later, as everything else is. */
function overAtOnce(ear: TerminalSessionListener): TerminalSession {
  void Promise.resolve().then(() => {
    ear.onOutput('\r\nthe sandbox was closed\r\n')
    ear.onExit(KILLED)
  })
  return { input: () => {}, resize: () => {}, pause: () => {}, resume: () => {} }
}
