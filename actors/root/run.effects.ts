/** What is to be done once something is on disk, and belongs to no single lease or line. */
import type { Yard } from './yard.ts'

export type RunEffect =
  /** Somebody waits for everything up to here to be on disk. */
  | { readonly type: 'run.landed'; readonly handle: number }
  | { readonly type: 'run.bury'; readonly runId: string }
  | { readonly type: 'run.push workers' }
  | { readonly type: 'run.discard'; readonly workerId: string; readonly runId: string }

export function runEffects(yard: () => Yard, landed: (handle: number) => void): (effect: RunEffect) => void {
  return (effect) => {
    switch (effect.type) {
      case 'run.landed':
        landed(effect.handle)
        return
      case 'run.bury':
        yard().bury(effect.runId)
        return
      case 'run.push workers':
        yard().pushWorkers()
        return
      case 'run.discard':
        yard().runErrand(effect.workerId, effect.runId)
        return
    }
  }
}
