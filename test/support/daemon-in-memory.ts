/** The dependencies of a worker daemon with a manual clock and a disk in memory. It never connects and executes nothing. */

import type { DaemonDependencies } from '../../actors/daemon/daemon-context.ts'
import { no } from '../../core/result.ts'
import { createHostClock } from './confirmed-clock.ts'
import { ManualClock } from './manual-clock.ts'
import { MemoryControlDatabase } from './memory-database.ts'
import { createPlainScreen } from './plain-screen.ts'
import { createRecordingLog, noMeters } from './recording-log.ts'

export function daemonDependenciesInMemory(): DaemonDependencies {
  const clock = new ManualClock()
  return {
    clock,
    random: { bytes: (count) => new Uint8Array(count), fraction: () => 0.5 },
    log: createRecordingLog(),
    meters: noMeters,
    database: new MemoryControlDatabase(clock),
    dialer: { dial: () => ({ send() {}, backlogBytes: () => 0, close() {} }) },
    identity: {
      credential: () => undefined,
      pairingToken: () => undefined,
      async saveCredential() {},
      async deletePairingToken() {},
      async deleteCredential() {},
    },
    executor: {
      refusalOf: async () => undefined,
      start() {
        throw new Error('this executor starts nothing')
      },
      recover: async () => ({}),
      boot: async () => no('gone', 'this executor boots nothing'),
      async discard() {},
      reclaim: async () => [],
    },
    hostClock: createHostClock(clock),
    makeScreen: createPlainScreen,
    capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap' },
    name: 'worker in memory',
    concurrency: 1,
    version: '0.1.0',
    onEnd: () => {},
  }
}
