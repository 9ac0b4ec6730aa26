/**
 * When an agent has had enough: minutes, dollars, turns, silence. Pure bookkeeping beside one timer.
 *
 * Agents that know their own budgets are told them as well; this is for those that don't, and for those that don't
 * keep to them. What is over is said once, in a sentence that names the setting.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import type { JobLimits } from '../../protocol/frames.ts'

export interface BudgetParts {
  readonly clock: Clock
  readonly limits: JobLimits
  readonly stallMs: number
  /** Asked now and then; a sentence when the machine itself can't go on. One that rejects has nothing to say. */
  readonly trouble: () => Promise<string | undefined>
  readonly over: (reason: string) => void
}

const LOOK_EVERY_MS = 5_000
const MINUTE_MS = 60_000

export class Budget {
  readonly #parts: BudgetParts
  readonly #startedAt: number
  #heardAt: number
  #cancel: Cancel | undefined
  #over = false

  constructor(parts: BudgetParts) {
    this.#parts = parts
    this.#startedAt = parts.clock.monotonic()
    this.#heardAt = this.#startedAt
    this.#lookLater()
  }

  /** It printed something. */
  heard(): void {
    this.#heardAt = this.#parts.clock.monotonic()
  }

  spent(spent: { readonly costUsd?: number; readonly turns: number }): void {
    const { maxCostUsd, maxTurns } = this.#parts.limits
    if (maxCostUsd !== undefined && spent.costUsd !== undefined && spent.costUsd > maxCostUsd)
      this.#say(
        `the agent spent more than agent.maxCostUsd allows: $${spent.costUsd.toFixed(4)} of $${maxCostUsd}`,
      )
    if (maxTurns !== undefined && spent.turns > maxTurns)
      this.#say(`the agent took more turns than agent.maxTurns allows, which is ${maxTurns}`)
  }

  stop(): void {
    this.#over = true
    this.#cancel?.()
  }

  #lookLater(): void {
    const { clock, limits, stallMs } = this.#parts
    const now = clock.monotonic()
    const dueAt = [this.#heardAt + stallMs, this.#startedAt + (limits.maxMinutes ?? Infinity) * MINUTE_MS]
    const waitMs = Math.max(1, Math.min(LOOK_EVERY_MS, ...dueAt.map((at) => at - now)))
    this.#cancel = clock.after(waitMs, () => void this.#look())
  }

  async #look(): Promise<void> {
    const { clock, limits, stallMs } = this.#parts
    const now = clock.monotonic()
    if (limits.maxMinutes !== undefined && now - this.#startedAt >= limits.maxMinutes * MINUTE_MS)
      return this.#say(
        `the agent took longer than sandbox.maxRunMinutes allows: ${inWords(limits.maxMinutes * MINUTE_MS)}`,
      )
    if (now - this.#heardAt >= stallMs)
      return this.#say(`the agent said nothing for ${inWords(stallMs)}: it is taken for stalled`)
    // Nobody waits for this: a rejection would end the whole worker.
    const trouble = await this.#parts.trouble().catch(() => undefined)
    if (trouble !== undefined) return this.#say(trouble)
    if (!this.#over) this.#lookLater()
  }

  #say(reason: string): void {
    if (this.#over) return
    this.stop()
    this.#parts.over(reason)
  }
}

function inWords(ms: number): string {
  const [count, unit] = ms >= MINUTE_MS ? [ms / MINUTE_MS, 'minute'] : [ms / 1000, 'second']
  const rounded = Number(count.toFixed(1))
  return `${rounded} ${unit}${rounded === 1 ? '' : 's'}`
}
