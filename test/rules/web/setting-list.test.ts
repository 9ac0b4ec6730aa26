/** The list of settings is complete, and says what the schema of the configuration says. */
import { expect, test } from '@jest/globals'
import { listSettings } from '../../../client/settings.ts'
import { configDefaults } from '../../../protocol/config.ts'
import { SETTING_LIST, SETTING_MEANINGS } from '../../../protocol/setting-list.ts'

const setting = (key: string) => SETTING_LIST.find((each) => each.key === key)
const keys = SETTING_LIST.map(({ key }) => key)

test('every setting has a meaning, and every meaning a setting', () => {
  expect(keys.filter((key) => SETTING_MEANINGS[key] === undefined)).toEqual([])
  expect(Object.keys(SETTING_MEANINGS).filter((key) => !keys.includes(key))).toEqual([])
})

test('every default is listed with its setting', () => {
  const defaults = listSettings(configDefaults, []).filter(
    ([, value]) => typeof value !== 'object' || Array.isArray(value),
  )
  expect(defaults.map(([key, value]) => [key, value, setting(key)?.default])).toEqual(
    defaults.map(([key, value]) => [key, value, value]),
  )
})

test.each([
  ['sandbox.concurrency', { kind: 'number', minimum: 1, maximum: 64, default: 2 }],
  ['server.port', { kind: 'number', needsRestart: true }],
  ['sandbox.network', { kind: 'choice', options: ['open', 'allowlist', 'none'] }],
  ['sandbox.memoryMib', { kind: 'number', isOptional: true }],
  ['fleet.tls', { kind: 'group', options: ['certFile', 'keyFile'], isOptional: true }],
  ['agent.serverTools', { kind: 'list', default: [] }],
  ['agent.models', { kind: 'list', isOptional: true }],
  ['agent.prices', { kind: 'table', isOptional: true }],
  ['tracker.eligible.states', { kind: 'list', default: ['Todo'] }],
  ['tracker.apiKey', { kind: 'credential' }],
  ['connect.trackerClientSecret', { kind: 'secret' }],
  ['repos.*.setup', { kind: 'lines', isOptional: true }],
  ['repos.*.remote', { kind: 'text', expects: 'a repository as owner/name' }],
  ['repos.*.orders', { kind: 'list' }],
])('%s is %p', (key, facts) => expect(setting(key)).toMatchObject(facts))
