/** A seeded generator of random choices. The same seed repeats the same choices; a failing test prints its seed. */
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
    if (item === undefined) throw new Error('cannot pick from an empty list')
    return item
  }
}

/** Returns the seed that `SEED` in the environment gives, to repeat a failure, or the fallback. */
export const seedFromEnvironment = (fallback: number): number => Number(process.env.SEED ?? fallback)

/** Returns a new seed each time, but a fixed one in CI, so that a result depends only on the change. */
export const drawSeed = (): number => seedFromEnvironment(process.env.CI ? CI_SEED : Date.now() % 1_000_000)

const CI_SEED = 260_601
