/** The actors of a story at an instant: those that exist by then, with the states that they have then. */
import type { InspectedActor } from '../../protocol/inspection.ts'
import type { ActorHistory, Model } from './model.ts'

/**
 * Actors that have ended stay, as they ended.
 *
 * @param n the last record that counts
 */
export function actorsAt({ actors, histories }: Model, n: number): InspectedActor[] {
  const present: InspectedActor[] = []
  for (const actor of actors.values()) {
    const history = histories.get(actor.id)
    const state = history === undefined ? actor.state : stateAt(history, n)
    if (state !== undefined) present.push(state === actor.state ? actor : { ...actor, state })
  }
  return present
}

/** Undefined: the actor does not exist yet. */
function stateAt({ base, records }: ActorHistory, n: number): string | undefined {
  for (let index = countUntil(records, n) - 1; index >= 0; index--) {
    const after = records[index]?.after
    if (after !== undefined) return after
  }
  // An actor without a state at its beginning was created later.
  return base.actor.state === '' ? undefined : base.actor.state
}

/** How many of the records count; they are in the order of their numbers, and a story may have very many. */
function countUntil(records: ActorHistory['records'], n: number): number {
  let [low, high] = [0, records.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((records[middle]?.n ?? 0) <= n) low = middle + 1
    else high = middle
  }
  return low
}

/** Whom a story shows first: a run, since most of what happens is about one. */
export function actorToOpen(actors: Iterable<InspectedActor>): InspectedActor | undefined {
  const all = [...actors]
  return all.find(({ kind }) => kind === 'run') ?? all[0]
}
