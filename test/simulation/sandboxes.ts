/**
 * The sandboxes on one simulated machine: what is kept of runs that have ended, and what is booted for people.
 *
 * The disk of them outlives the daemon; what is booted, and the credentials in it, do not. A session prints what is
 * typed, spends something on it, and ends when it is told to. Whether a sandbox that somebody is in may be taken back is
 * for the daemon to say: the disk itself would let it go.
 */
import type {
  BootedSandbox,
  BootRequest,
  TerminalSession,
  TerminalSessionListener,
} from '../../core/daemon/terminal.ts'
import type { Clock } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import type { Random } from '../support/random.ts'
import type { Process } from './timeline.ts'
import { entryOf } from './worker.ts'

/** What ends a session when it is typed. */
export const LEAVE = 'bye'
/** Beyond the patience of whoever asks for it. */
const SLOW_BOOT_MS = 70_000

/** The disk of one run's sandbox. */
export interface Kept {
  readonly runId: string
  /** Until when, on its machine's wall clock; undefined while it is used, or after that was cut short. */
  until: number | undefined
  /** What its executions came to, and all that people's sessions in it have used since. */
  readonly log: { readonly subagent: boolean; readonly entry: UsageEntry }[]
}

export class Shelf {
  readonly kept = new Map<string, Kept>()
  /** By run, all that people ever used in it: what is taken back was used all the same. */
  readonly used = new Map<string, number>()

  use(runId: string): Kept {
    const kept = this.kept.get(runId) ?? { runId, until: undefined, log: [] }
    this.kept.set(runId, kept)
    kept.until = undefined
    return kept
  }

  spend(kept: Kept, subagent: boolean, at: string): void {
    const count = (this.used.get(kept.runId) ?? 0) + 1
    this.used.set(kept.runId, count)
    kept.log.push({ subagent, entry: entryOf(`${kept.runId} typed ${count}`, at) })
  }
}

/** One boot of one sandbox, from when its credentials were handed over until nothing of them is left. */
export class Boot {
  readonly worker: string
  readonly runId: string
  readonly process: Process
  stage: 'booting' | 'booted' | 'closing' = 'booting'
  /** Its session's process ended by itself. */
  isOver = false
  /** All that its session has printed, and when it did last. */
  printed = ''
  printedAt = 0

  constructor(worker: string, runId: string, process: Process) {
    this.worker = worker
    this.runId = runId
    this.process = process
  }
}

export interface BootsWatch {
  boots(boot: Boot): void
  /** It has come to another stage. */
  moved(boot: Boot): void
  gone(boot: Boot): void
}

export interface BootsParts {
  readonly worker: string
  readonly clock: Clock
  readonly process: Process
  readonly random: Random
  readonly shelf: Shelf
  readonly now: () => number
  /** Which of the agent's sessions is to be gone on with, as far as the host knows. */
  readonly sessionOf: (runId: string) => string | undefined
  readonly watch: BootsWatch
}

export class Boots {
  readonly #parts: BootsParts

  constructor(parts: BootsParts) {
    this.#parts = parts
  }

  async boot({ runId }: BootRequest): Promise<Result<BootedSandbox>> {
    const { worker, process, random, watch } = this.#parts
    const boot = new Boot(worker, runId, process)
    watch.boots(boot)
    await this.#later(random.random(0.03) ? SLOW_BOOT_MS : random.fraction() ** 3 * 8_000)
    const kept = this.#bootable(runId)
    if (!kept.ok) {
      watch.gone(boot)
      return kept
    }
    boot.stage = 'booted'
    watch.moved(boot)
    return yes(new BootedHands(this.#parts, boot, ...kept.value))
  }

  #bootable(runId: string): Result<[Kept, string]> {
    const { clock, random, sessionOf, shelf } = this.#parts
    const kept = shelf.kept.get(runId)
    const sessionId = sessionOf(runId)
    if (kept?.until === undefined || kept.until <= clock.now()) return no('gone', 'it is not kept any more')
    if (sessionId === undefined) return no('invalid', 'it has no session')
    return random.random(0.05) ? no('failed', 'it does not start') : yes([kept, sessionId])
  }

  #later(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#parts.clock.after(ms, resolve))
  }
}

class BootedHands implements BootedSandbox, TerminalSession {
  readonly #parts: BootsParts
  readonly #boot: Boot
  readonly #kept: Kept
  readonly #sessionId: string
  #ear: TerminalSessionListener | undefined
  #waiting: string[] = []
  #isPaused = false
  #ending: number | undefined
  #closing: Promise<readonly UsageSnapshot[]> | undefined

  constructor(parts: BootsParts, boot: Boot, kept: Kept, sessionId: string) {
    this.#parts = parts
    this.#boot = boot
    this.#kept = kept
    this.#sessionId = sessionId
  }

  open(_size: object, ear: TerminalSessionListener): TerminalSession {
    if (this.#ear !== undefined) throw new Error('a booted sandbox has one terminal')
    this.#ear = ear
    this.#soon(800, () => this.#print('hello '))
    return this
  }

  input(data: string): void {
    if (data === LEAVE) this.#soon(300, () => this.#end(0))
    else {
      this.#spend()
      this.#soon(300, () => this.#print(data))
    }
  }

  resize(): void {}

  pause(): void {
    this.#isPaused = true
  }

  resume(): void {
    this.#isPaused = false
    this.#flow()
  }

  close(): Promise<readonly UsageSnapshot[]> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<readonly UsageSnapshot[]> {
    const { clock, random, watch } = this.#parts
    this.#boot.stage = 'closing'
    watch.moved(this.#boot)
    const ms = random.fraction() ** 2 * (random.random(0.1) ? 12_000 : 2_000)
    await new Promise<void>((resolve) => void clock.after(ms, resolve))
    watch.gone(this.#boot)
    return this.#snapshots()
  }

  /** The whole of the session, its subagent's part by itself. */
  #snapshots(): UsageSnapshot[] {
    const place = { projectKey: 'project', sessionId: this.#sessionId }
    return [false, true].flatMap((subagent) => {
      const entries = this.#kept.log.filter((one) => one.subagent === subagent).map(({ entry }) => entry)
      if (entries.length === 0) return []
      return [{ ...place, ...(subagent ? { subagentId: 'agent-1' } : {}), entries }]
    })
  }

  #spend(): void {
    const { clock, random, shelf } = this.#parts
    if (this.#closing === undefined && random.random(0.6))
      shelf.spend(this.#kept, random.random(0.3), new Date(clock.now()).toISOString())
  }

  #soon(mostMs: number, then: () => void): void {
    this.#parts.clock.after(this.#parts.random.fraction() * mostMs, () => {
      if (this.#closing === undefined && this.#ending === undefined) then()
    })
  }

  #print(data: string): void {
    this.#waiting.push(data)
    this.#flow()
  }

  #end(code: number): void {
    this.#ending = code
    this.#flow()
  }

  #flow(): void {
    if (this.#isPaused || this.#closing !== undefined || this.#boot.isOver) return
    for (const data of this.#waiting.splice(0)) {
      this.#boot.printed += data
      this.#boot.printedAt = this.#parts.now()
      this.#ear?.onOutput(data)
    }
    if (this.#ending === undefined || this.#isPaused) return
    this.#boot.isOver = true
    this.#ear?.onExit(this.#ending)
  }
}
