/** Every agent of the configuration has a driver and an account, and they agree with its definition. */
import { expect, test } from '@jest/globals'
import { AGENT_PROVIDERS, AGENTS } from '../../../../protocol/agents/registry.ts'
import { AGENT_ACCOUNTS } from '../../../../providers/accounts/agents/registry.ts'
import { createAgentDrivers } from '../../../../worker/agents/registry.ts'

const drivers = createAgentDrivers({ path: '', home: '/root', hasOwnUsers: false })

test('every agent of the configuration has a driver of its own name, and no driver lacks an agent', () => {
  expect(Object.keys(drivers)).toEqual(AGENT_PROVIDERS)
  expect(Object.values(drivers).map(({ provider }) => provider)).toEqual(AGENT_PROVIDERS)
})

test('every agent of the configuration has checks of its credentials, and no checks lack an agent', () => {
  expect(Object.keys(AGENT_ACCOUNTS)).toEqual(AGENT_PROVIDERS)
})

test.each(AGENT_PROVIDERS)(
  '%s builds a terminal command exactly if its sessions can be resumed',
  (provider) => {
    expect(drivers[provider].buildTerminalCommand !== undefined).toBe(AGENTS[provider].isResumable)
  },
)
