/** Creates how long each simulated worker works on a job: some milliseconds, the same for the same seed. */
const WORK_MS_MIN = 10
const WORK_MS_MAX = 20

/** Longer than a commit under load, so that a run is accepted in one commit and ends in another. */
export function createWorkTimes(seed: number): () => number {
  const random = createRandom(seed)
  return () => WORK_MS_MIN + random() * (WORK_MS_MAX - WORK_MS_MIN)
}

/** The generator `mulberry32`: numbers from 0 to below 1. */
function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
