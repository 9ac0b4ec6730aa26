/** One seed, one generator, every choice. Prints nothing; a failing test says its seed. */
export class Random {
  readonly seed: number
  #state: number

  constructor(seed: number) {
    this.seed = seed
    this.#state = (seed ^ 0x9e3779b9) >>> 0
  }

  /** 0 ≤ x < 1 (mulberry32) */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  below(bound: number): number {
    return Math.floor(this.fraction() * bound)
  }

  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)]
    if (item === undefined) throw new Error('nothing to pick from')
    return item
  }
}

/** The seed to start from: a fixed one, or `SEED` from the environment to repeat what a failure printed. */
export const seedFromEnvironment = (fallback: number): number => Number(process.env.SEED ?? fallback)

/** Drawn anew each time; but in CI always the same, so that a change is judged by what it changed. */
export const drawSeed = (): number => seedFromEnvironment(process.env.CI ? CI_SEED : Date.now() % 1_000_000)

const CI_SEED = 260_601
