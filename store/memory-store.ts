/**
 * The whole store in plain maps: the same ports, no files, gone with the process.
 *
 * For tests, dry runs and simulation. It keeps the promises that others build on: a commit is all or nothing, lands
 * after the turn in which it was asked for and in order, what is handed in or out is a copy, and reads see only what
 * has landed. With one clock it is deterministic: every commit lands through `clock.endOfTick`.
 */
import type { Clock, Store } from '../core/ports.ts'
import { MemoryArtifacts } from './memory/artifacts.ts'
import { MemoryConfigFile } from './memory/config-file.ts'
import { MemoryControlDatabase } from './memory/control-database.ts'
import { MemoryEventLogs } from './memory/event-logs.ts'
import { MemoryUsageArchive } from './memory/usage.ts'

export interface MemoryStoreOptions {
  readonly clock: Clock
  /** What the configuration file holds at first. */
  readonly config?: string
}

export interface MemoryStore extends Store {
  readonly database: MemoryControlDatabase
  readonly events: MemoryEventLogs
  readonly config: MemoryConfigFile
}

export function createMemoryStore(options: MemoryStoreOptions): MemoryStore {
  const events = new MemoryEventLogs()
  const database = new MemoryControlDatabase(options.clock, events)
  const artifacts = new MemoryArtifacts()
  const usage = new MemoryUsageArchive()
  const config = new MemoryConfigFile(options.clock, options.config)
  return {
    database,
    events,
    artifacts,
    usage,
    config,
    close: () => {
      config.close()
      events.close()
      artifacts.close()
      usage.close()
      return database.close()
    },
  }
}
