/**
 * Defines an entry of the bench, and how much time it may take.
 */
import type { BenchResources } from './bench-resources.ts'
import type { Figure } from './figures.ts'

export interface Effort {
  readonly rounds: number
  /** How long each contestant is measured in a round. */
  readonly roundMs: number
  readonly quick: boolean
}

export interface Entry {
  readonly name: string
  /** A line for `--help`. */
  readonly about: string
  measure(effort: Effort, resources: BenchResources): Promise<readonly Figure[]>
}

/**
 * Measures the contestants in turn (A, B, C, A, B, C …), so that a disturbance of the machine affects all of them.
 * The first round is discarded: code is still being compiled, and files are not in memory yet.
 */
export async function measureInTurn<N extends string>(
  rounds: number,
  contestants: Readonly<Record<N, () => Promise<number>>>,
  warmUp = true,
): Promise<Readonly<Record<N, number>>[]> {
  const all: Readonly<Record<N, number>>[] = []
  for (let round = warmUp ? -1 : 0; round < rounds; round++) {
    const figures: Partial<Record<N, number>> = {}
    for (const name of namesOf(contestants)) figures[name] = await contestants[name]()
    if (round >= 0) all.push(figures as Record<N, number>)
  }
  return all
}

function namesOf<N extends string>(contestants: Readonly<Record<N, unknown>>): N[] {
  // `Object.keys` loses the key type of a record.
  return Object.keys(contestants) as N[]
}
