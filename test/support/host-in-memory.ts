/**
 * Creates a host with a manual clock and an in-memory store: the production actors without listeners.
 */
import { createHost, type Host, type HostDependencies } from '../../actors/root/create-host.ts'
import { yes } from '../../core/result.ts'
import { readConfig } from '../../core/settings/read.ts'
import { ManualClock } from './manual-clock.ts'
import { createMemoryStore } from './memory-store.ts'
import { noProviders } from './no-providers.ts'
import { createRecordingLog, noMeters } from './recording-log.ts'

export function createInMemoryHost(configText?: string, parts: Partial<HostDependencies> = {}) {
  const { dependencies, clock, log, store, ended } = createInMemoryDependencies(configText)
  const host: Host = createHost({ ...dependencies, ...parts })
  return { host, clock, log, store, ended }
}

export function createInMemoryDependencies(configText?: string) {
  const clock = new ManualClock()
  const log = createRecordingLog()
  const store = createMemoryStore({ clock, ...(configText === undefined ? {} : { config: configText }) })
  const configuration = readConfig(configText)
  if (!configuration.ok) throw new Error(configuration.refusal.message)
  const ended: { exitCode: number; reason: string }[] = []
  const dependencies: HostDependencies = {
    clock,
    random: { bytes: (count) => new Uint8Array(count), fraction: () => 0.5 },
    log,
    meters: noMeters,
    store,
    configuration: configuration.value,
    configText,
    tracker: () => undefined,
    ...noProviders,
    health: { ok: true, version: '0', sandboxProvider: 'bwrap' },
    findTlsFault: () => undefined,
    openListeners: async () => yes({ close: async () => {} }),
    finish: (exitCode, reason) => void ended.push({ exitCode, reason }),
  }
  return { dependencies, clock, log, store, ended }
}
