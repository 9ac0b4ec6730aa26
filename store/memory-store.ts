/**
 * The whole store in plain maps: the same ports, no files, gone with the process.
 *
 * For tests, dry runs and simulation. It keeps the promises that others build on: a commit is all or nothing, lands
 * after the turn in which it was asked for and in order, what is handed in or out is a copy, and reads see only what
 * has landed. With one clock it is deterministic: every commit lands through `clock.endOfTick`.
 */
import type { Clock, Store } from '../core/ports.ts'
import { VolatileArtifacts } from './memory/artifacts.ts'
import { VolatileConfigFile } from './memory/config-file.ts'
import { VolatileLedger } from './memory/control-database.ts'
import { VolatileEventLogs } from './memory/event-logs.ts'
import { VolatileUsageArchive } from './memory/usage.ts'

export interface VolatileStoreOptions {
  readonly clock: Clock
  /** What the configuration file holds at first. */
  readonly config?: string
}

export interface VolatileStore extends Store {
  readonly ledger: VolatileLedger
  readonly events: VolatileEventLogs
  readonly config: VolatileConfigFile
}

export function volatileStore(options: VolatileStoreOptions): VolatileStore {
  const events = new VolatileEventLogs()
  const ledger = new VolatileLedger(options.clock, events)
  const artifacts = new VolatileArtifacts()
  const usage = new VolatileUsageArchive()
  const config = new VolatileConfigFile(options.clock, options.config)
  return {
    ledger,
    events,
    artifacts,
    usage,
    config,
    close: () => {
      config.close()
      events.close()
      artifacts.close()
      usage.close()
      return ledger.close()
    },
  }
}
