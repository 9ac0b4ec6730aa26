/**
 * One thing that a service counts: what is left of it, and whether it may be asked for at all.
 *
 * Shut, nobody passes until the instant that the service named. Then exactly one goes first, the probe, and the others
 * follow only when it was served; refused again, it stays shut for longer each time. Instants are monotonic, numbers
 * of requests are in the order in which they began.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Urgency } from '../../core/provider-ports.ts'

/** `told`: the service wants fewer requests. `spent`: nothing is left. `sparing`: what is left is for people. */
export interface Stop {
  readonly is: 'stop'
  readonly until: number
  readonly why: 'told' | 'spent' | 'sparing'
  readonly limit?: number
  readonly remaining?: number
}

/** `wait`: for a reply that is under way, which will say more. */
export type Verdict = { readonly is: 'go' } | { readonly is: 'wait' } | Stop

export interface Word {
  readonly limit?: number
  readonly remaining: number
  /** From then on it says nothing any more. */
  readonly until: number
}

/** What nobody waits for leaves so much of a limit to people. */
export const RESERVE_SHARE = 0.2
/** However often it was refused. */
export const SHUT_MS_MAX = 3_600_000

const GO: Verdict = { is: 'go' }
const WAIT: Verdict = { is: 'wait' }

interface Shut {
  readonly until: number
  readonly why: 'told' | 'spent'
  /** In a row. */
  readonly refusals: number
}

export class BudgetGate {
  #word: (Word & { readonly asOf: number }) | undefined
  #shut: Shut | undefined
  #probe: number | undefined
  readonly #underWay = new Set<number>()

  verdict(urgency: Urgency, now: number): Verdict {
    if (this.#shut !== undefined) {
      if (now < this.#shut.until) return this.#stop(this.#shut.why, this.#shut.until)
      return this.#probe === undefined ? GO : WAIT
    }
    const word = this.#wordAt(now)
    if (word === undefined) return GO
    const floor = urgency === 'person' ? 0 : reserveOf(word)
    if (word.remaining <= floor) return this.#stop(word.remaining <= 0 ? 'spent' : 'sparing', word.until)
    // Whoever began after it was said draws from the same, and the service has not said so yet.
    const since = [...this.#underWay].filter((number) => number > word.asOf).length
    return word.remaining - since <= floor ? WAIT : GO
  }

  /** Nothing would be lost by forgetting it. */
  isBlank(now: number): boolean {
    return this.#underWay.size === 0 && this.#shut === undefined && this.#wordAt(now) === undefined
  }

  get isShut(): boolean {
    return this.#shut !== undefined
  }

  isSparing(now: number): boolean {
    const word = this.#wordAt(now)
    return word !== undefined && word.remaining <= reserveOf(word)
  }

  begin(number: number): void {
    this.#underWay.add(number)
    if (this.#shut !== undefined) this.#probe = number
  }

  /**
   * Replies come in any order; what was said to a later request counts.
   *
   * @param isRefused a refusal says itself for how long
   */
  hear(number: number, word: Word, isRefused: boolean): void {
    if (this.#word !== undefined && this.#word.asOf > number) return
    this.#word = { ...word, asOf: number }
    if (word.remaining <= 0) {
      if (!isRefused) this.#shutUntil(word.until, 'spent', 1)
    } else if (this.#shut?.why === 'spent' && this.#probe !== number) this.#shut = undefined
  }

  /** The service wants fewer requests. */
  refuse(number: number, askedMs: number, now: number, fraction: number): void {
    const isAgain = this.#probe === number
    const refusals = isAgain ? (this.#shut?.refusals ?? 0) + 1 : (this.#shut?.refusals ?? 1)
    const wider = backoffMs(refusals, askedMs, Math.max(askedMs, SHUT_MS_MAX), fraction)
    // What was under way when it was shut is refused as well, and says nothing new. What it says for how long goes
    // before the instant at which a budget is full again.
    if (this.#shut?.why === 'spent') this.#shut = undefined
    this.#shutUntil(now + (isAgain ? Math.max(askedMs, wider) : askedMs), 'told', refusals)
    this.#leave(number)
  }

  serve(number: number, now: number): void {
    if (this.#probe === number && this.#shut !== undefined && this.#shut.until <= now) {
      this.#shut = undefined
      // It was said before, and has just been disproved.
      if (this.#word !== undefined && this.#word.asOf < number) this.#word = undefined
    }
    this.#leave(number)
  }

  /** There was no reply, or one that says nothing of this. */
  lose(number: number): void {
    this.#leave(number)
  }

  #leave(number: number): void {
    this.#underWay.delete(number)
    if (this.#probe === number) this.#probe = undefined
  }

  #shutUntil(until: number, why: Shut['why'], refusals: number): void {
    this.#shut = {
      until: Math.max(until, this.#shut?.until ?? until),
      why: why === 'told' ? why : (this.#shut?.why ?? why),
      refusals: Math.max(refusals, this.#shut?.refusals ?? 0),
    }
  }

  #wordAt(now: number): (Word & { readonly asOf: number }) | undefined {
    return this.#word !== undefined && now < this.#word.until ? this.#word : undefined
  }

  #stop(why: Stop['why'], until: number): Stop {
    const { limit, remaining } = this.#word ?? {}
    return {
      is: 'stop',
      until,
      why,
      ...(limit === undefined ? {} : { limit }),
      ...(remaining === undefined ? {} : { remaining }),
    }
  }
}

function reserveOf({ limit }: Word): number {
  return limit === undefined ? 0 : Math.ceil(limit * RESERVE_SHARE)
}
