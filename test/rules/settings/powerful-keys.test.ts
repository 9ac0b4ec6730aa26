/** Tests of the settings that give power over the machine: which changes of them need a confirmation. */
import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { decideChange } from '../../../core/settings/change.ts'
import { findPowerfulChanges, requireConfirmation } from '../../../core/settings/powerful-keys.ts'
import { describePower, OTHER_KEYS, POWERFUL_KEYS } from '../../../protocol/powerful-keys.ts'
import { SETTING_LIST } from '../../../protocol/setting-list.ts'
import { createConfig } from '../../support/sample-configs.ts'

const nothingInUse = () => new Set<string>()

const before = createConfig({
  server: { allowedOrigins: ['https://a.example'] },
  sandbox: { network: 'allowlist', allowedHosts: ['a.example', 'b.example'], exposeCodehostToken: true },
  tracker: { driver: 'local', path: '/tickets' },
  codehost: { driver: 'local', path: '/code' },
  agent: {
    commands: { agentA: 'claude' },
    maxCostUsd: 5,
    serverTools: ['web_search', 'urls'],
    models: ['claude-*', 'gpt-*'],
    prices: { 'claude-next': { input: 5, output: 25 } },
  },
  connect: { apiBase: 'https://helper.example' },
  repos: { web: { remote: 'o/web', setup: 'npm ci', cloneUrl: 'https://code.example/o/web' } },
})

function changesOf(patch: unknown, inUse: readonly string[] = []): string[] {
  const decided = decideChange(before, patch, () => undefined)
  if (!decided.ok) throw new Error(decided.refusal.message)
  return findPowerfulChanges(before.effective, decided.value.effective, () => new Set(inUse))
}

test.each<[object, string[]]>([
  [{ repos: { web: { setup: 'curl x | sh' } } }, ['repos.web.setup']],
  [{ repos: { web: { setup: null } } }, ['repos.web.setup']],
  [{ repos: { web: { cloneUrl: 'https://evil.example/o/web' } } }, ['repos.web.cloneUrl']],
  [{ repos: { 'a.b/c': { remote: 'o/n', setup: 'make' } } }, ['repos.a.b/c.setup']],
  [{ codehost: { path: '/etc' } }, ['codehost.path']],
  [{ tracker: { path: '/etc' } }, ['tracker.path']],
  [{ codehost: { apiUrl: 'http://127.0.0.1:1' } }, ['codehost.apiUrl']],
  [{ tracker: { apiUrl: 'http://127.0.0.1:1' } }, ['tracker.apiUrl']],
  [{ connect: { apiBase: 'https://other.example' } }, ['connect.apiBase']],
  [{ connect: { apiBase: null } }, ['connect.apiBase']],
  [{ agent: { commands: { agentB: 'sh -c "$X"' } } }, ['agent.commands']],
  [{ sandbox: { exposeCodehostToken: false } }, ['sandbox.exposeCodehostToken']],
  [{ sandbox: { network: 'open' } }, ['sandbox.network']],
  [{ sandbox: { allowedHosts: ['a.example', 'c.example'] } }, ['sandbox.allowedHosts']],
  [{ server: { allowedOrigins: [] } }, ['server.allowedOrigins']],
  [
    { sandbox: { network: 'open' }, tracker: { path: '/x', pollSeconds: 60 } },
    ['tracker.path', 'sandbox.network'],
  ],
  // Whole sections and mappings count by what they change, and a deleted section by its defaults.
  [{ repos: { web: { remote: 'o/web', setup: 'x', label: 'y' } } }, ['repos.web.setup']],
  [
    { repos: { web: null, new: { remote: 'o/web', setup: 'npm ci', cloneUrl: '/srv/x' } } },
    ['repos.new.cloneUrl', 'repos.new.setup'],
  ],
  [{ agent: null }, ['agent.commands', 'agent.maxCostUsd', 'agent.models', 'agent.prices']],
  [{ agent: { maxCostUsd: 6 } }, ['agent.maxCostUsd']],
  [{ agent: { maxCostUsd: null } }, ['agent.maxCostUsd']],
  [{ agent: { maxCostUsd: 4 } }, []],
  [{ agent: { serverTools: ['mcp'] } }, ['agent.serverTools']],
  [{ agent: { models: ['claude-*', '*'] } }, ['agent.models']],
  [{ agent: { models: null } }, ['agent.models']],
  [{ agent: { prices: { 'claude-next': { output: 2 } } } }, ['agent.prices']],
  [{ agent: { serverTools: ['urls'], models: ['gpt-*'] } }, []],
  [{ agent: { commands: { agentA: null } } }, ['agent.commands']],
  [{ sandbox: null }, ['sandbox.exposeCodehostToken']],
  [{ sandbox: { allowedHosts: ['*.a.example', 'b.example'] } }, ['sandbox.allowedHosts']],
  [{ sandbox: { network: 'none', allowedHosts: ['a.example:8080'] } }, ['sandbox.allowedHosts']],
  [{ server: null }, ['server.allowedOrigins']],
  [
    { tracker: { driver: 'linear', path: null, apiUrl: 'https://x' } },
    ['tracker.driver', 'tracker.path', 'tracker.apiUrl'],
  ],
  [{ codehost: { driver: 'github', path: '/other' } }, ['codehost.driver', 'codehost.path']],
  [{ repos: { web: { instructions: 'Push to main.' } } }, ['repos.web.instructions']],
  [
    { repos: { web: { allowWorkflows: true, orders: ['eve'] } } },
    ['repos.web.allowWorkflows', 'repos.web.orders'],
  ],
  [{ agent: { keyInSandbox: true, maxTurns: 50 } }, ['agent.keyInSandbox']],
  [{ fleet: { publicUrl: 'https://evil.example', insecure: true } }, ['fleet.publicUrl', 'fleet.insecure']],
  // A narrower network, a removed mapping, an unchanged value, and settings without such power need none.
  [{ sandbox: { network: 'none' } }, []],
  [{ sandbox: { allowedHosts: ['b.example'] } }, []],
  [{ sandbox: { allowedHosts: null } }, []],
  [{ repos: { web: null } }, []],
  [{ repos: { web: { setup: 'npm ci', label: 'x' }, api: { remote: 'o/api' } } }, []],
  [{ sandbox: { concurrency: 4 }, policy: { paused: true } }, []],
])('%j changes %j', (patch, keys) => {
  expect(changesOf(patch)).toEqual(keys)
})

test('a run’s sum needs a confirmation where it grows or goes', () => {
  const limited = createConfig({ agent: { maxCostUsd: 20 } })
  const changes = (maxCostUsd: number | null) => {
    const decided = decideChange(limited, { agent: { maxCostUsd } }, () => undefined)
    if (!decided.ok) throw new Error(decided.refusal.message)
    return findPowerfulChanges(limited.effective, decided.value.effective, nothingInUse)
  }
  expect([19, 21, null].map(changes)).toEqual([[], ['agent.maxCostUsd'], ['agent.maxCostUsd']])
})

test('another remote needs a confirmation while work for the repository is under way', () => {
  const patch = { repos: { web: { remote: 'evil/web' }, new: { remote: 'o/new' } } }
  expect(changesOf(patch)).toEqual([])
  expect(changesOf(patch, ['web', 'new'])).toEqual(['repos.web.remote'])
})

test('the table has every setting once, and no other', () => {
  const covers = (key: string) => (setting: string) => setting === key || setting.startsWith(`${key}.`)
  const settings = SETTING_LIST.map(({ key }) => key)
  const listed = [...POWERFUL_KEYS.map(({ key }) => key), ...OTHER_KEYS]
  expect(settings.filter((setting) => listed.filter((key) => covers(key)(setting)).length !== 1)).toEqual([])
  expect(listed.filter((key) => !settings.some(covers(key)))).toEqual([])
})

test('the document of security has the table’s rows', () => {
  const rows = POWERFUL_KEYS.map(
    ({ key, decides, only }) => `| \`${key}\` | ${decides}${only === undefined ? '' : `; only ${only}`} |`,
  )
  const table = ['| setting | a change of it decides |', '| --- | --- |', ...rows, ''].join('\n')
  expect(readFileSync('docs/security.md', 'utf8')).toContain(`\n${table}\n`)
})

test('a section that is deleted takes a narrow network back to its default', () => {
  const narrow = createConfig({ sandbox: { network: 'none' } })
  for (const patch of [{ sandbox: null }, { sandbox: { network: null } }]) {
    const decided = decideChange(narrow, patch, () => undefined)
    if (!decided.ok) throw new Error(decided.refusal.message)
    expect(findPowerfulChanges(narrow.effective, decided.value.effective, nothingInUse)).toEqual([
      'sandbox.network',
    ])
  }
})

test('the request must confirm exactly the changed keys', () => {
  const { effective } = createConfig({ ...before.stored, sandbox: { network: 'open' }, connect: {} })
  const confirm = (...keys: string[]) => requireConfirmation(before.effective, effective, keys, nothingInUse)
  const keys = ['connect.apiBase', 'sandbox.network', 'sandbox.allowedHosts', 'sandbox.exposeCodehostToken']
  const needed = findPowerfulChanges(before.effective, effective, nothingInUse)
  expect(keys).toEqual(expect.arrayContaining(needed))
  for (const given of [[], needed.slice(1), [...needed, 'repos.web.setup']])
    expect(confirm(...given)).toMatchObject({ ok: false, refusal: { kind: 'conflict', confirm: needed } })
  expect(confirm(...needed).ok).toBe(true)
  expect(confirm(...[...needed].reverse()).ok).toBe(true)
  expect(requireConfirmation(before.effective, before.effective, ['tracker.path'], nothingInUse).ok).toBe(
    true,
  )
})

test('a sentence says what each key decides, and a long list is cut', () => {
  expect(describePower(['repos.my.web.setup', 'tracker.apiUrl'])).toBe(
    'repos.my.web.setup decides which commands run in its sandboxes, and tracker.apiUrl decides which server is the tracker',
  )
  const many = Array.from({ length: 9 }, (_, at) => `repos.r${at}.setup`)
  expect(describePower(many)).toMatch(/ and 4 more keys decide the like$/)
})
