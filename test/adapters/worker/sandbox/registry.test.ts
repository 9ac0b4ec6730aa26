/** The sandbox registry chooses a provider that works on this machine, and says why there is none. */
import { expect, test } from '@jest/globals'
import { SANDBOX_PROVIDERS } from '../../../../protocol/config.ts'
import type { SandboxDriverProbe } from '../../../../worker/sandbox/driver.ts'
import { findSandbox } from '../../../../worker/sandbox/registry.ts'

const driver = (probed: SandboxDriverProbe) => ({ probe: async () => probed })

test('a provider that works is found under its own name', async () => {
  const createLauncher = () => {
    throw new Error('this test starts no sandbox')
  }
  const walls = { walls: ['namespaces'], missingWalls: [] }
  const found = await findSandbox({ bwrap: driver({ ok: true, ...walls, createLauncher }) })
  expect(found).toEqual({ ok: true, provider: 'bwrap', ...walls, createLauncher })
})

test('a machine without a provider gets the reason of the first one', async () => {
  const unavailable = { ok: false, reason: 'bwrap-unavailable', detail: 'install it' } as const
  expect(await findSandbox({ bwrap: driver(unavailable) })).toEqual(unavailable)
})

test('this machine has one of the providers that the configuration knows', async () => {
  const found = await findSandbox()
  expect(found).toMatchObject({ ok: true, provider: expect.stringMatching(SANDBOX_PROVIDERS.join('|')) })
})
