/**
 * Defines an entry of the bench, and how much time it may take.
 */
import type { BenchResources } from './bench-resources.ts'
import type { Figure, Measurement } from './figures.ts'
import { warmUpUntilSteady } from './warm-up.ts'

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

type Contestants<N extends string, M> = Readonly<Record<N, () => Promise<M>>>
type Round<N extends string, M> = Readonly<Record<N, M>>

/**
 * Measures the contestants in turn (A, B, C, A, B, C …), so that a disturbance of the machine affects all of them.
 * The first round is discarded: code is still being compiled, and files are not in memory yet.
 */
export async function measureInTurn<N extends string, M = number>(
  rounds: number,
  contestants: Contestants<N, M>,
  warmUp = true,
): Promise<Round<N, M>[]> {
  const all: Round<N, M>[] = []
  for (let round = warmUp ? -1 : 0; round < rounds; round++) {
    const measured = await measureRound(contestants)
    if (round >= 0) all.push(measured)
  }
  return all
}

/** Discarded rounds that need not rest, because nothing of them is kept. */
export interface WarmUp<N extends string> {
  readonly contestants: Contestants<N, Measurement>
  /** Waits until all contestants rest. */
  rest(): Promise<unknown>
}

/** Measures the contestants in turn; rounds are discarded until all contestants are steady. */
export async function measureWhenSteady<N extends string, M extends Measurement = Measurement>(
  rounds: number,
  contestants: Contestants<N, M>,
  warmUp?: WarmUp<N>,
): Promise<Round<N, M>[]> {
  const discarded: Contestants<N, Measurement> = warmUp?.contestants ?? contestants
  await warmUpUntilSteady(async () => Object.values<Measurement>(await measureRound(discarded)))
  await warmUp?.rest()
  return measureInTurn(rounds, contestants, false)
}

async function measureRound<N extends string, M>(contestants: Contestants<N, M>): Promise<Round<N, M>> {
  const figures: Partial<Record<N, M>> = {}
  for (const name of namesOf(contestants)) figures[name] = await contestants[name]()
  return figures as Round<N, M>
}

function namesOf<N extends string>(contestants: Readonly<Record<N, unknown>>): N[] {
  // `Object.keys` loses the key type of a record.
  return Object.keys(contestants) as N[]
}
