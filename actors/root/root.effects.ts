/**
 * Carries out the effects of the root machine: restore the actors, open and close the listeners, end the process.
 *
 * Every effect sends its outcome to the root, failures included: a root that waits for ever could not be stopped.
 */
import { isNativeError } from 'node:util/types'
import type { Log } from '../../core/ports.ts'
import { no, type Refusal, type Result } from '../../core/result.ts'
import type { RestoreReport } from '../runtime/actor-system.ts'
import type { RootEffect, RootEvent } from './root.machine.ts'

export interface RootEffectPorts {
  /** Refused as `gone` when a record is newer than this version. */
  readonly restore: () => Result<RestoreReport>
  /** Refused when a port is in use, with a message that names the port. */
  readonly openListeners: () => Promise<Result<void>>
  readonly closeListeners: () => Promise<unknown>
  readonly finish: (exitCode: number, reason: string) => void
  readonly log: Log
  readonly sendEvent: (event: RootEvent) => void
}

/** A stored record was written by a newer version (EX_DATAERR). */
export const EXIT_STORE_TOO_NEW = 65
/** A listener could not be opened (EX_UNAVAILABLE). */
export const EXIT_LISTENERS = 69
/** A bug or a disk failure (EX_SOFTWARE). */
export const EXIT_BROKEN = 70
/** Another process has taken the data directory over (EX_TEMPFAIL). */
export const EXIT_IN_USE = 75
/** A listener's configuration is invalid, for example its certificate (EX_CONFIG). */
export const EXIT_CONFIG = 78

export function createRootEffects(ports: RootEffectPorts): (effect: RootEffect) => void {
  return (effect) => {
    switch (effect.type) {
      case 'root.read records':
        ports.sendEvent(readRecords(ports))
        return
      case 'root.open listeners':
        void openListeners(ports).then(ports.sendEvent)
        return
      case 'root.close listeners':
        void closeListeners(ports).then(ports.sendEvent)
        return
      case 'root.finish':
        ports.finish(effect.exitCode, effect.reason)
        return
    }
  }
}

function readRecords({ restore }: RootEffectPorts): RootEvent {
  try {
    const restored = restore()
    if (restored.ok) return { type: 'records read' }
    const exitCode = restored.refusal.kind === 'gone' ? EXIT_STORE_TOO_NEW : EXIT_BROKEN
    return { type: 'records refused', exitCode, reason: restored.refusal.message }
  } catch (error) {
    const reason = `could not read the stored actors: ${messageOf(error)}`
    return { type: 'records refused', exitCode: EXIT_BROKEN, reason }
  }
}

async function openListeners(ports: RootEffectPorts): Promise<RootEvent> {
  try {
    const opened = await ports.openListeners()
    return opened.ok ? { type: 'listeners open' } : listenersRefused(opened.refusal)
  } catch (error) {
    return listenersRefused(no('failed', `could not open the listeners: ${messageOf(error)}`).refusal)
  }
}

function listenersRefused({ kind, message }: Refusal): RootEvent {
  const exitCode = kind === 'invalid' ? EXIT_CONFIG : kind === 'failed' ? EXIT_BROKEN : EXIT_LISTENERS
  return { type: 'listeners refused', exitCode, reason: message }
}

async function closeListeners({ closeListeners, log }: RootEffectPorts): Promise<RootEvent> {
  try {
    await closeListeners()
  } catch (error) {
    log.error({ err: error }, 'could not close the listeners in order')
  }
  return { type: 'listeners closed' }
}

const messageOf = (error: unknown): string => (isNativeError(error) ? error.message : String(error))
