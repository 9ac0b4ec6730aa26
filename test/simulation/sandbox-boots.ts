/**
 * The sandboxes of one simulated machine: those kept from ended runs and those booted for people.
 *
 * Kept sandboxes survive the daemon; booted ones and their credentials do not. A session prints its input,
 * sometimes records usage for it, and ends on `EXIT_INPUT`. The disk would reclaim a booted sandbox; the daemon
 * must prevent that.
 */
import type { HostClock } from '../../actors/daemon/host-clock.ts'
import type {
  BootedSandbox,
  BootRequest,
  TerminalSession,
  TerminalSessionListener,
} from '../../core/daemon/terminal.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import type { Random } from '../support/random.ts'
import { usageEntry } from './sim-worker.ts'
import type { Process } from './timeline.ts'

/** Input that ends a session. */
export const EXIT_INPUT = 'bye'
/** Longer than the host waits for a boot. */
const SLOW_BOOT_MS = 70_000

export interface RecordedUsage {
  readonly subagent: boolean
  readonly entry: UsageEntry
  /** The sessions whose transcripts contain it: each execution continues in a copy of what is there. */
  readonly sessions: Set<string>
}

/** The kept sandbox of one run. */
export interface SimSandbox {
  readonly runId: string
  /**
   * Reclaim time on the machine's wall clock; undefined while the sandbox is in use or after an interrupted use.
   */
  until: number | undefined
  /** The same as true time. */
  dueAt: number
  /** Usage of its executions and of people's later sessions. */
  readonly usage: RecordedUsage[]
  /** The sandbox holds work that an agent has finished and that is not published. */
  isUnpublished?: boolean
  /** The agent's session that its last execution has named. */
  sessionId?: string
  /** The execution that has spent something in it most recently. */
  spentBy?: string | undefined
}

/** An execution that has spent something. */
export interface Spending {
  readonly leaseId: string
  readonly runId: string
  readonly workerId: string
}

/** Whether the sandbox of a run holds work that exists nowhere else. */
export const isUnpushed = (runId: string): boolean => 'fedcb'.includes(runId.at(-1) ?? '')

export class SandboxDisk {
  readonly records = new Map<string, SimSandbox>()
  /** By run: usage entries that people caused, also in sandboxes that were reclaimed since. */
  readonly usageCounts = new Map<string, number>()

  /** All executions of this machine that have spent something. */
  readonly spendings: Spending[] = []

  markInUse(runId: string): SimSandbox {
    const record = this.records.get(runId) ?? { runId, until: undefined, dueAt: 0, usage: [] }
    this.records.set(runId, record)
    record.until = undefined
    record.dueAt = 0
    return record
  }

  recordSpending(spending: Spending): void {
    this.markInUse(spending.runId).spentBy = spending.leaseId
    this.spendings.push(spending)
  }

  recordUsage(record: SimSandbox, sessionId: string, subagent: boolean, at: string): void {
    const count = (this.usageCounts.get(record.runId) ?? 0) + 1
    this.usageCounts.set(record.runId, count)
    const entry = usageEntry(`${record.runId} typed ${count}`, at)
    record.usage.push({ subagent, entry, sessions: new Set([sessionId]) })
  }
}

/** A single boot of a sandbox, from the receipt of its credentials until everything of it is removed. */
export class SandboxBoot {
  readonly worker: string
  readonly runId: string
  readonly process: Process
  stage: 'booting' | 'booted' | 'closing' = 'booting'
  /** Whether the session's process ended by itself. */
  isOver = false
  /** All output of the session. */
  printed = ''
  printedAt = 0

  constructor(worker: string, runId: string, process: Process) {
    this.worker = worker
    this.runId = runId
    this.process = process
  }
}

export interface BootObserver {
  onBootStarted(boot: SandboxBoot): void
  /** The boot entered another stage. */
  onBootStageChanged(boot: SandboxBoot): void
  onBootGone(boot: SandboxBoot): void
}

export interface SandboxBootsOptions {
  readonly worker: string
  readonly clock: Clock
  readonly hostClock: HostClock
  readonly process: Process
  readonly random: Random
  readonly sandboxes: SandboxDisk
  readonly now: () => number
  /** The agent's session to continue, as far as the host knows. */
  readonly sessionOf: (runId: string) => string | undefined
  readonly observer: BootObserver
}

export class SandboxBoots {
  readonly #options: SandboxBootsOptions

  constructor(options: SandboxBootsOptions) {
    this.#options = options
  }

  async boot({ runId }: BootRequest): Promise<Result<BootedSandbox>> {
    const { worker, process, random, observer } = this.#options
    const boot = new SandboxBoot(worker, runId, process)
    observer.onBootStarted(boot)
    await this.#sleep(random.chance(0.03) ? SLOW_BOOT_MS : random.fraction() ** 3 * 8_000)
    const record = this.#findBootable(runId)
    if (!record.ok) {
      observer.onBootGone(boot)
      return record
    }
    boot.stage = 'booted'
    observer.onBootStageChanged(boot)
    return yes(new SimBootedSandbox(this.#options, boot, ...record.value))
  }

  #findBootable(runId: string): Result<[SimSandbox, string]> {
    const { hostClock, random, sessionOf, sandboxes } = this.#options
    const record = sandboxes.records.get(runId)
    const sessionId = sessionOf(runId)
    if (record?.until === undefined || record.until <= hostClock.now())
      return no('gone', 'it is not kept any more')
    if (sessionId === undefined) return no('invalid', 'it has no session')
    return random.chance(0.05)
      ? no('failed', 'it does not start')
      : yes([record, record.sessionId ?? sessionId])
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#options.clock.after(ms, resolve))
  }
}

class SimBootedSandbox implements BootedSandbox, TerminalSession {
  readonly #options: SandboxBootsOptions
  readonly #boot: SandboxBoot
  readonly #record: SimSandbox
  readonly sessionId: string
  #listener: TerminalSessionListener | undefined
  #unprinted: string[] = []
  #isPaused = false
  #exitCode: number | undefined
  #closing: Promise<readonly UsageSnapshot[]> | undefined

  constructor(options: SandboxBootsOptions, boot: SandboxBoot, record: SimSandbox, sessionId: string) {
    this.#options = options
    this.#boot = boot
    this.#record = record
    this.sessionId = sessionId
  }

  open(_size: object, listener: TerminalSessionListener): TerminalSession {
    if (this.#listener !== undefined) throw new Error('this sandbox has a terminal already')
    this.#listener = listener
    this.#runWithin(800, () => this.#print('hello '))
    return this
  }

  input(data: string): void {
    if (data === EXIT_INPUT) this.#runWithin(300, () => this.#end(0))
    else {
      this.#recordUsage()
      this.#runWithin(300, () => this.#print(data))
    }
  }

  resize(): void {}

  pause(): void {
    this.#isPaused = true
  }

  resume(): void {
    this.#isPaused = false
    this.#flush()
  }

  close(): Promise<readonly UsageSnapshot[]> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<readonly UsageSnapshot[]> {
    const { clock, random, observer } = this.#options
    this.#boot.stage = 'closing'
    observer.onBootStageChanged(this.#boot)
    const ms = random.fraction() ** 2 * (random.chance(0.1) ? 12_000 : 2_000)
    await new Promise<void>((resolve) => void clock.after(ms, resolve))
    observer.onBootGone(this.#boot)
    return this.#snapshots()
  }

  /** The usage of the whole session, with the subagent's part in a snapshot of its own. */
  #snapshots(): UsageSnapshot[] {
    const place = { projectKey: 'project', sessionId: this.sessionId }
    return [false, true].flatMap((subagent) => {
      const entries = this.#record.usage
        .filter((each) => each.subagent === subagent && each.sessions.has(this.sessionId))
        .map(({ entry }) => entry)
      if (entries.length === 0) return []
      return [{ ...place, ...(subagent ? { subagentId: 'agent-1' } : {}), entries }]
    })
  }

  #recordUsage(): void {
    const { clock, random, sandboxes } = this.#options
    if (this.#closing === undefined && random.chance(0.6))
      sandboxes.recordUsage(
        this.#record,
        this.sessionId,
        random.chance(0.3),
        new Date(clock.now()).toISOString(),
      )
  }

  #runWithin(mostMs: number, then: () => void): void {
    this.#options.clock.after(this.#options.random.fraction() * mostMs, () => {
      if (this.#closing === undefined && this.#exitCode === undefined) then()
    })
  }

  #print(data: string): void {
    this.#unprinted.push(data)
    this.#flush()
  }

  #end(code: number): void {
    this.#exitCode = code
    this.#flush()
  }

  #flush(): void {
    if (this.#isPaused || this.#closing !== undefined || this.#boot.isOver) return
    for (const data of this.#unprinted.splice(0)) {
      this.#boot.printed += data
      this.#boot.printedAt = this.#options.now()
      this.#listener?.onOutput(data)
    }
    if (this.#exitCode === undefined || this.#isPaused) return
    this.#boot.isOver = true
    this.#listener?.onExit(this.#exitCode)
  }
}
