/**
 * What the root does to the world: bring lives back, open and close the doors, end the process.
 */
import type { Answer } from '../../core/refusal.ts'
import type { RestoreReport } from '../kit/host.ts'
import type { RootEvent } from './root.machine.ts'

export type RootEffect =
  | { readonly type: 'root.read records' }
  | { readonly type: 'root.open doors' }
  | { readonly type: 'root.close doors' }
  | { readonly type: 'root.finish'; readonly exitCode: number; readonly reason: string }

export interface RootPorts {
  readonly restore: () => Answer<RestoreReport>
  /** Refused when a port is taken, with a sentence that names it. */
  readonly openDoors: () => Promise<Answer<void>>
  readonly closeDoors: () => Promise<void>
  readonly finish: (exitCode: number, reason: string) => void
  readonly tell: (event: RootEvent) => void
}

/** A record was written by a newer version: data this program can't read (EX_DATAERR). */
export const EXIT_STORE_TOO_NEW = 65
/** A listener could not be opened (EX_UNAVAILABLE). */
export const EXIT_DOORS = 69
/** Something inside broke, the disk included (EX_SOFTWARE). */
export const EXIT_BROKEN = 70

export function rootEffects(ports: RootPorts): (effect: RootEffect) => void {
  return (effect) => {
    switch (effect.type) {
      case 'root.read records': {
        const restored = ports.restore()
        ports.tell(
          restored.ok
            ? { type: 'records read' }
            : { type: 'records refused', exitCode: EXIT_STORE_TOO_NEW, reason: restored.refusal.message },
        )
        return
      }
      case 'root.open doors':
        void ports
          .openDoors()
          .then((opened) =>
            ports.tell(
              opened.ok
                ? { type: 'doors open' }
                : { type: 'doors refused', exitCode: EXIT_DOORS, reason: opened.refusal.message },
            ),
          )
        return
      case 'root.close doors':
        void ports.closeDoors().then(() => ports.tell({ type: 'doors closed' }))
        return
      case 'root.finish':
        ports.finish(effect.exitCode, effect.reason)
        return
    }
  }
}
