/** What is done once something is on disk, and belongs to no single lease or line. */
import type { RunEffect } from '../runs/run-manager.ts'
import type { Rooms } from './modules.ts'

export function runEffects(
  rooms: () => Rooms,
  landed: (handle: number) => void,
): (effect: RunEffect) => void {
  return (effect) => {
    switch (effect.type) {
      case 'run.landed':
        landed(effect.handle)
        return
      case 'run.bury':
        rooms().runs.bury(effect.runId)
        return
      case 'run.discard':
        rooms().workers.runErrand(effect.workerId, effect.runId)
        return
    }
  }
}
