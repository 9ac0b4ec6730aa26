/**
 * The whole store in memory: the same ports without files, gone with the process.
 *
 * For tests and the simulation. The guarantees are those of the real store: a commit is all or nothing,
 * commits are applied in order after the turn of the event loop that requested them, values are copied in and out,
 * and reads return only committed data. With one clock the store is deterministic, because every commit is applied
 * through `clock.endOfTick`.
 */
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import type { ConfigFile, Store, UsageArchive, UsageKey } from '../../core/ports/store.ts'
import type { CredentialRecords } from '../../core/settings/credential-origins.ts'
import type { AuditAction } from '../../protocol/audit.ts'
import { CONFIG_BYTES_MAX } from '../../protocol/limits.ts'
import { StoreClosed } from '../../store/errors.ts'
import { compareUsageKeys, isUsageName, usageKeyText } from '../../store/files/usage.ts'
import { MemoryArtifacts } from './memory-artifacts.ts'
import { MemoryControlDatabase, MemoryEventLogs } from './memory-database.ts'

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

/** The usage archive in memory. */
class MemoryUsageArchive implements UsageArchive {
  readonly #texts = new Map<string, { readonly key: UsageKey; readonly text: string }>()
  #closed = false

  async replace(key: UsageKey, text: string): Promise<void> {
    const name = usageKeyText(key)
    if (this.#closed) throw new StoreClosed('the store is closed')
    this.#texts.set(name, { key: { ...key }, text })
  }

  close(): void {
    this.#closed = true
  }

  async read(key: UsageKey): Promise<string | undefined> {
    return this.#texts.get(usageKeyText(key))?.text
  }

  async list(projectKey: string): Promise<UsageKey[]> {
    if (!isUsageName(projectKey)) return []
    const keys = [...this.#texts.values()].map(({ key }) => ({ ...key }))
    return keys.filter((key) => key.projectKey === projectKey).sort(compareUsageKeys)
  }
}

const DEBOUNCE_MS = 100

/** The configuration file in memory. `edit` simulates a hand edit. */
class MemoryConfigFile implements ConfigFile {
  readonly path = 'config.json'
  readonly savedCopies: string[] = []
  readonly #clock: Clock
  readonly #watchers = new Set<() => void>()
  #text: string | undefined
  #closed = false

  constructor(clock: Clock, text?: string) {
    this.#clock = clock
    this.#text = text
  }

  async read(): Promise<string | undefined> {
    return this.#text
  }

  async replace(expected: string | undefined, text: string) {
    if (this.#closed) throw new StoreClosed('the store is closed')
    if (Buffer.byteLength(text) > CONFIG_BYTES_MAX)
      throw new RangeError(`${this.path} is larger than ${CONFIG_BYTES_MAX} bytes`)
    if (this.#text !== expected) return { is: 'changed', text: this.#text } as const
    this.edit(text)
    return { is: 'replaced' } as const
  }

  async saveCopy(text: string): Promise<string> {
    if (this.#closed) throw new StoreClosed('the store is closed')
    const number = this.savedCopies.push(text)
    return `${this.path}.${number}.rejected`
  }

  watch(changed: () => void): Cancel {
    let pending: Cancel | undefined
    const scheduleCallback = () => {
      pending?.()
      pending = this.#clock.after(DEBOUNCE_MS, changed)
    }
    this.#watchers.add(scheduleCallback)
    return () => {
      pending?.()
      this.#watchers.delete(scheduleCallback)
    }
  }

  close(): void {
    this.#closed = true
  }

  edit(text: string | undefined): void {
    this.#text = text
    for (const soon of this.#watchers) soon()
  }
}
