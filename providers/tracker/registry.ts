/** The tracker registry lists the drivers, and creates the tracker that the configuration names. */
import type { Tracker } from '../../core/ports/tracker.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { TrackerDriverName } from '../../protocol/drivers.ts'
import { githubTrackerDriver } from './github/driver.ts'
import { linearTrackerDriver } from './linear/driver.ts'
import { localTrackerDriver } from './local/driver.ts'
import type { TrackerDriver, TrackerPorts } from './tracker-driver.ts'

export const TRACKER_REGISTRY: Readonly<Record<TrackerDriverName, TrackerDriver>> = {
  linear: linearTrackerDriver,
  github: githubTrackerDriver,
  local: localTrackerDriver,
}

/** Undefined when no tracker is configured or connected. */
export function createTracker(config: ServiceConfig, ports: TrackerPorts): Tracker | undefined {
  return TRACKER_REGISTRY[config.tracker.driver].create(config, ports)
}
