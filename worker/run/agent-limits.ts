/**
 * `AgentLimits` watches the limits of one agent: minutes, dollars, turns, and time without output.
 *
 * `onExceeded` is called at most once, with a sentence that names the exceeded setting. Some agents also receive their
 * limits and enforce them; this class covers the agents that have no limits of their own or ignore them.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import type { JobLimits } from '../../protocol/frames.ts'
import { overBudgetReason } from '../agents/spending.ts'

export interface AgentLimitsOptions {
  readonly clock: Clock
  readonly limits: JobLimits
  readonly stallMs: number
  /** Polled every few seconds: why the machine itself cannot go on, or undefined. A rejection counts as undefined. */
  readonly findMachineProblem: () => Promise<string | undefined>
  /** Requests to the model are under way: an end now would count the worst case of each. */
  readonly isModelBusy: () => boolean
  readonly onExceeded: (reason: string) => void
}

const CHECK_EVERY_MS = 5_000
const MINUTE_MS = 60_000

export class AgentLimits {
  readonly #options: AgentLimitsOptions
  readonly #startedAt: number
  #outputAt: number
  #cancelCheck: Cancel | undefined
  #isStopped = false
  #statedUsd = 0

  constructor(options: AgentLimitsOptions) {
    this.#options = options
    this.#startedAt = options.clock.monotonic()
    this.#outputAt = this.#startedAt
    this.#scheduleCheck()
  }

  recordOutput(): void {
    this.#outputAt = this.#options.clock.monotonic()
  }

  recordSpending(spent: { readonly costUsd?: number; readonly turns: number }): void {
    const { isModelBusy, limits } = this.#options
    const { maxTurns } = limits
    this.#statedUsd = Math.max(this.#statedUsd, spent.costUsd ?? 0)
    if (!isModelBusy()) this.recordCost(spent.costUsd)
    if (maxTurns !== undefined && spent.turns > maxTurns)
      this.#exceed(`the agent took more turns than agent.maxTurns allows, which is ${maxTurns}`)
  }

  /** Receives the worker's figure when nothing is under way; the agent's own counts besides. */
  recordCost(costUsd = 0): void {
    const overBudget = overBudgetReason(Math.max(costUsd, this.#statedUsd), this.#options.limits.maxCostUsd)
    if (overBudget !== undefined) this.#exceed(overBudget)
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelCheck?.()
  }

  #scheduleCheck(): void {
    const { clock, limits, stallMs } = this.#options
    const now = clock.monotonic()
    const dueAt = [this.#outputAt + stallMs, this.#startedAt + (limits.maxMinutes ?? Infinity) * MINUTE_MS]
    const waitMs = Math.max(1, Math.min(CHECK_EVERY_MS, ...dueAt.map((at) => at - now)))
    this.#cancelCheck = clock.after(waitMs, () => void this.#check())
  }

  async #check(): Promise<void> {
    const { clock, limits, stallMs } = this.#options
    const now = clock.monotonic()
    if (limits.maxMinutes !== undefined && now - this.#startedAt >= limits.maxMinutes * MINUTE_MS)
      return this.#exceed(
        `the agent took longer than sandbox.maxRunMinutes allows: ${formatDuration(limits.maxMinutes * MINUTE_MS)}`,
      )
    if (now - this.#outputAt >= stallMs)
      return this.#exceed(`the agent printed nothing for ${formatDuration(stallMs)}, so it counts as stalled`)
    // No caller awaits this check: an unhandled rejection would end the whole worker.
    const problem = await this.#options.findMachineProblem().catch(() => undefined)
    if (problem !== undefined) return this.#exceed(problem)
    if (!this.#isStopped) this.#scheduleCheck()
  }

  #exceed(reason: string): void {
    if (this.#isStopped) return
    this.stop()
    this.#options.onExceeded(reason)
  }
}

function formatDuration(ms: number): string {
  const [count, unit] = ms >= MINUTE_MS ? [ms / MINUTE_MS, 'minute'] : [ms / 1000, 'second']
  const rounded = Number(count.toFixed(1))
  return `${rounded} ${unit}${rounded === 1 ? '' : 's'}`
}
