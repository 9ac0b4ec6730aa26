/** Which tracker a configuration asks for. */
import type { Clock, Log, Tracker } from '../../core/ports.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { localTracker } from './local.ts'

export interface TrackerPorts {
  readonly clock: Clock
  readonly log: Log
}

/** undefined: none is configured. */
export function trackerFor(config: ServiceConfig, ports: TrackerPorts): Tracker | undefined {
  const { driver, path } = config.tracker
  return driver === 'local' && path !== undefined ? localTracker({ ...ports, path }) : undefined
}
