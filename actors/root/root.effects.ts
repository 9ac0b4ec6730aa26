/**
 * What the root does to the world: bring lives back, open and close the doors, end the process. Each ends by telling
 * the root what happened, also when it went wrong: a root that waits for ever is a host that can't be stopped.
 */
import { isNativeError } from 'node:util/types'
import type { Log } from '../../core/ports.ts'
import { no, type Refusal, type Result } from '../../core/result.ts'
import type { RestoreReport } from '../runtime/actor-system.ts'
import type { RootEffect, RootEvent } from './root.machine.ts'

export interface RootEffectPorts {
  /** Refused as `gone` when a record is newer than this version. */
  readonly restore: () => Result<RestoreReport>
  /** Refused when a port is taken, with a sentence that names it. */
  readonly openListeners: () => Promise<Result<void>>
  readonly closeListeners: () => Promise<unknown>
  readonly finish: (exitCode: number, reason: string) => void
  readonly log: Log
  readonly sendEvent: (event: RootEvent) => void
}

/** A record was written by a newer version: data this program can't read (EX_DATAERR). */
export const EXIT_STORE_TOO_NEW = 65
/** A listener could not be opened (EX_UNAVAILABLE). */
export const EXIT_LISTENERS = 69
/** Something inside broke, the disk included (EX_SOFTWARE). */
export const EXIT_BROKEN = 70
/** What is configured can't be opened as it is: a certificate that is none, say (EX_CONFIG). */
export const EXIT_CONFIG = 78

export function createRootEffects(ports: RootEffectPorts): (effect: RootEffect) => void {
  return (effect) => {
    switch (effect.type) {
      case 'root.read records':
        ports.sendEvent(readRecords(ports))
        return
      case 'root.open doors':
        void openListeners(ports).then(ports.sendEvent)
        return
      case 'root.close doors':
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
    const reason = `the stored lives could not be read: ${messageOf(error)}`
    return { type: 'records refused', exitCode: EXIT_BROKEN, reason }
  }
}

async function openListeners({ openListeners: openDoors }: RootEffectPorts): Promise<RootEvent> {
  try {
    const opened = await openDoors()
    return opened.ok ? { type: 'doors open' } : listenersRefused(opened.refusal)
  } catch (error) {
    return listenersRefused(no('failed', `the doors could not be opened: ${messageOf(error)}`).refusal)
  }
}

function listenersRefused({ kind, message }: Refusal): RootEvent {
  const exitCode = kind === 'invalid' ? EXIT_CONFIG : kind === 'failed' ? EXIT_BROKEN : EXIT_LISTENERS
  return { type: 'doors refused', exitCode, reason: message }
}

async function closeListeners({ closeListeners: closeDoors, log }: RootEffectPorts): Promise<RootEvent> {
  try {
    await closeDoors()
  } catch (error) {
    log.error({ err: error }, 'the doors did not close in order')
  }
  return { type: 'doors closed' }
}

const messageOf = (error: unknown): string => (isNativeError(error) ? error.message : String(error))
