/** The accounts port over real HTTP, with the test's own environment. */
import { afterEach, expect } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import type { Accounts } from '../../../../core/ports/accounts.ts'
import { configDefaults, type ServiceConfig } from '../../../../protocol/config.ts'
import { type AccountsPorts, createAccounts } from '../../../../providers/accounts/accounts.ts'
import { HttpClientPool } from '../../../../providers/http/client-pool.ts'
import { createHttp } from '../../../../providers/http/http.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'

const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

export function closeAfterTest(close: () => unknown): void {
  closers.push(close)
}

export function createTestAccounts(more: Partial<AccountsPorts> = {}): Accounts {
  const http = createHttp({ clock: realClock, random: realRandom })
  const pool = new HttpClientPool({ http, clock: realClock, random: realRandom, log: createRecordingLog() })
  closeAfterTest(async () => {
    pool.close()
    await http.close()
  })
  return createAccounts({
    http,
    clients: pool,
    clock: realClock,
    random: realRandom,
    environment: { PATH: '/nowhere', HOME: '/nowhere' },
    uid: process.getuid?.() ?? 0,
    ...more,
  })
}

type ConfigSections = Partial<Pick<ServiceConfig, 'tracker' | 'codehost' | 'connect' | 'agent'>>

export function configWith(
  sections: { readonly [S in keyof ConfigSections]: Partial<ServiceConfig[S]> },
): ServiceConfig {
  return {
    ...configDefaults,
    tracker: { ...configDefaults.tracker, ...sections.tracker },
    codehost: { ...configDefaults.codehost, ...sections.codehost },
    connect: { ...configDefaults.connect, ...sections.connect },
    agent: { ...configDefaults.agent, ...sections.agent },
  }
}

export const refusedAs = (kind: string, message?: RegExp) => ({
  ok: false,
  refusal: {
    kind,
    ...(message === undefined ? {} : { message: expect.stringMatching(message) }),
  },
})
