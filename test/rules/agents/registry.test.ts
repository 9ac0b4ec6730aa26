/** The agent registry and the configuration's schema name the same agents and the same credentials. */
import { describe, expect, test } from '@jest/globals'
import { credentialFieldFor } from '../../../core/settings/agent-credentials.ts'
import { AGENT_PROVIDERS, AGENTS, RESUMABLE_AGENT } from '../../../protocol/agents/registry.ts'
import { CREDENTIAL_PATHS } from '../../../protocol/config.ts'
import { CREDENTIAL_PROVIDERS } from '../../../protocol/connect.ts'

describe('the agent registry', () => {
  test('has one definition for each agent of the configuration, under its own name', () => {
    expect(Object.keys(AGENTS)).toEqual(AGENT_PROVIDERS)
    expect(Object.values(AGENTS).map(({ provider }) => provider)).toEqual(AGENT_PROVIDERS)
  })

  test('names each credential field of the configuration exactly once', () => {
    const fields = Object.values(AGENTS).flatMap(({ credentials }) => credentials.map(({ field }) => field))
    const agentPaths = CREDENTIAL_PATHS.filter((path) => path.startsWith('/agent/'))
    expect(fields.map((field) => `/agent/${field}`).sort()).toEqual(agentPaths.sort())
  })

  test('knows the agent of each key that a person may give', () => {
    const { trackerApiKey: _, codehostToken: __, storageToken: ___, ...agentKeys } = CREDENTIAL_PROVIDERS
    for (const [field, provider] of Object.entries(agentKeys))
      expect(credentialFieldFor(provider, 'a key')).toBe(field)
  })

  test('assigns a setup token that is given as a key to its own field', () => {
    expect(credentialFieldFor('agentA', 'sk-ant-oat01-x')).toBe('agentAOauthToken')
    expect(credentialFieldFor('agentA', 'sk-ant-api03-x')).toBe('agentAApiKey')
  })

  test('names the agent whose sessions people resume', () => {
    expect(RESUMABLE_AGENT).toBe('agentA')
  })
})
