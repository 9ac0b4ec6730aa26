/** What is done once something is on disk, and belongs to no single lease or line. */
import type { RunEffect } from '../runs/run-manager.ts'
import type { Rooms } from './modules.ts'

export function runEffects(
  rooms: () => Rooms,
  landed: (handle: number) => void,
): (effect: RunEffect) => void {
  return (effect) => {
    switch (effect.type) {
      case 'run.notify committed':
        landed(effect.handle)
        return
      case 'run.mark failed':
        rooms().runs.markFailed(effect.runId)
        return
      case 'run.send discard':
        rooms().workerManager.sendDiscard(effect.workerId, effect.runId)
        return
    }
  }
}
