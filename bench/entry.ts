/**
 * One thing that is measured, and how long it may take over it.
 */

import type { BenchResources } from './bench-resources.ts'
import type { Figure } from './figures.ts'

export interface Effort {
  readonly rounds: number
  /** How long one contestant is measured in one round. */
  readonly roundMs: number
  readonly quick: boolean
}

export interface Entry {
  readonly name: string
  /** One line for `--help`. */
  readonly about: string
  measure(effort: Effort, resources: BenchResources): Promise<readonly Figure[]>
}

/**
 * A, B, C, A, B, C …: what disturbs the machine for a while disturbs all of them. The first turn of each is thrown
 * away: code is still being compiled, files are not in memory yet.
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
  // Object.keys forgets that the keys of a record are known.
  return Object.keys(contestants) as N[]
}
