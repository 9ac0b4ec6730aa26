/**
 * `LocalResumedSandbox` is a booted sandbox of this machine: its one terminal, and the usage when it is closed.
 *
 * `close` lets the agent write its last message, kills every process and reads the usage of the person's sessions.
 */
import type {
  BootedSandbox,
  TerminalSession,
  TerminalSessionListener,
  TerminalSize,
} from '../../core/daemon/terminal.ts'
import type { Cancel } from '../../core/ports.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import { openAgentFiles } from '../agents/agent-files.ts'
import { withSeedFiles } from './agent-start.ts'
import type { ResumableSandbox, ResumeSandboxOptions, SessionCommand } from './resume-sandbox.ts'
import { PROGRAMS_INSIDE } from './sandbox-paths.ts'
import type { SandboxSession } from './sandbox-session.ts'
import { SandboxTerminal } from './terminal-session.ts'

/** Time for an agent to write its last message and its usage into the transcript after a hang-up; then it is killed. */
const HANG_UP_MS_MAX = 1_500
/** Limits how long `close` reads transcripts; transcripts of several days take seconds. */
const USAGE_MS_MAX = 10_000

export class LocalResumedSandbox implements BootedSandbox {
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
