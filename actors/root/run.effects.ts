/** What is done once something is on disk, and belongs to no single lease or line. */
import type { RunEffect } from '../runs/run-manager.ts'
import type { HostModules } from './modules.ts'

export function createRunEffects(
  modules: () => HostModules,
  landed: (handle: number) => void,
): (effect: RunEffect) => void {
  return (effect) => {
    switch (effect.type) {
      case 'run.notify committed':
        landed(effect.handle)
        return
      case 'run.mark failed':
        modules().runs.markFailed(effect.runId)
        return
      case 'run.send discard':
        modules().workerManager.sendDiscard(effect.workerId, effect.runId)
        return
    }
  }
}
