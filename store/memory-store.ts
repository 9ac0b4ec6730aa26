/**
 * The whole store in memory: the same ports without files, gone with the process.
 *
 * For tests, dry runs and the simulation. The guarantees are those of the real store: a commit is all or nothing,
 * commits are applied in order after the turn of the event loop that requested them, values are copied in and out,
 * and reads return only committed data. With one clock the store is deterministic, because every commit is applied
 * through `clock.endOfTick`.
 */
import type { Clock, Store } from '../core/ports.ts'
import type { CredentialRecords } from '../core/settings/credential-origins.ts'
import type { AuditAction } from '../protocol/audit.ts'
import { MemoryArtifacts } from './memory/artifacts.ts'
import { MemoryConfigFile } from './memory/config-file.ts'
import { MemoryControlDatabase } from './memory/control-database.ts'
import { MemoryEventLogs } from './memory/event-logs.ts'
import { MemoryUsageArchive } from './memory/usage.ts'

export interface MemoryStoreOptions {
  readonly clock: Clock
  /** The initial text of the configuration file. */
  readonly config?: string
  readonly installation?: string
}

const MEMORY_INSTALLATION = 'in-0000000000000000'

export interface MemoryStore extends Store {
  readonly database: MemoryControlDatabase
  readonly events: MemoryEventLogs
  readonly config: MemoryConfigFile
  readonly actions: readonly AuditAction[]
}

export function createMemoryStore(options: MemoryStoreOptions): MemoryStore {
  const events = new MemoryEventLogs()
  const database = new MemoryControlDatabase(options.clock, events)
  const artifacts = new MemoryArtifacts()
  const usage = new MemoryUsageArchive()
  const config = new MemoryConfigFile(options.clock, options.config)
  const actions: AuditAction[] = []
  let records: CredentialRecords = {}
  return {
    installation: options.installation ?? MEMORY_INSTALLATION,
    database,
    events,
    artifacts,
    usage,
    config,
    credentialRecords: {
      read: () => records,
      replace: async (changed) => {
        records = changed
      },
    },
    actions,
    trail: {
      record: async (action) => {
        actions.push(action)
      },
    },
    close: () => {
      config.close()
      events.close()
      artifacts.close()
      usage.close()
      return database.close()
    },
  }
}
