/** The page of settings: what is shown, what is left by its filters, and what a typed text becomes. */

import { expect, test } from '@jest/globals'
import { refusalOf } from '../../../client/settings.ts'
import { configDefaults } from '../../../protocol/config.ts'
import { SETTING_LIST } from '../../../protocol/setting-list.ts'
import {
  editedText,
  filterSections,
  repoSectionsOf,
  sectionsOf,
  tablePatch,
  valueAt,
  valueOfGroup,
  valueOfText,
} from '../../../web/dashboard/settings/setting-model.ts'

const config = {
  ...configDefaults,
  sandbox: { ...configDefaults.sandbox, concurrency: 4 },
  repos: { 'a.b': { remote: 'acme/ab', setup: 'npm ci' } },
}
const setting = (key: string) => {
  const found = SETTING_LIST.find((each) => each.key === key)
  if (found === undefined) throw new Error(`no setting is called ${key}`)
  return found
}
const keysOf = (sections: ReturnType<typeof sectionsOf>) =>
  sections.flatMap(({ settings }) => settings.map(({ key }) => key))

test('a value is found where names hold dots', () => {
  expect(valueAt(config, 'repos.a.b.setup')).toBe('npm ci')
  expect(valueAt(config, 'repos.a.c.setup')).toBeUndefined()
})

test('only what differs from its default is changed', () => {
  const all = [...sectionsOf(SETTING_LIST, config), ...repoSectionsOf(SETTING_LIST, config)]
  expect(keysOf(filterSections(all, { words: '', onlyChanged: true }))).toEqual([
    'sandbox.concurrency',
    'repos.a.b.remote',
    'repos.a.b.setup',
  ])
  expect(repoSectionsOf(SETTING_LIST, config)[0]?.settings[0]?.parts).toEqual(['repos', 'a.b', 'remote'])
})

test('words are found in keys and meanings', () => {
  const sections = sectionsOf(SETTING_LIST, config)
  expect(keysOf(filterSections(sections, { words: 'memory sandbox', onlyChanged: false }))).toEqual([
    'sandbox.memoryMib',
  ])
  expect(filterSections(sections, { words: 'nothing like that', onlyChanged: false })).toEqual([])
})

test.each([
  ['sandbox.concurrency', ' 8 ', 8],
  ['sandbox.concurrency', 'many', 'many'],
  ['sandbox.concurrency', '', ''],
  ['sandbox.memoryMib', '', null],
  ['sandbox.network', 'open', 'open'],
  ['worker.local', 'false', false],
  ['agent.orchestratorModel', '', ''],
  ['tracker.path', '', null],
  ['tracker.eligible.states', 'Todo\n\n Ready ', ['Todo', 'Ready']],
  ['tracker.eligible.states', '', []],
  ['repos.*.setup', 'npm ci\n  make\n', 'npm ci\n  make\n'],
  ['repos.*.orders', 'writers', 'writers'],
  ['repos.*.orders', 'mira', ['mira']],
  ['repos.*.orders', ' ', null],
])('%s: %p becomes %p', (key, text, value) => expect(valueOfText(setting(key), text)).toEqual(value))

test('a value becomes the text of its field', () => {
  expect(editedText({ a: 1 })).toBe('{\n  "a": 1\n}')
  expect([['a', 'b'], undefined, 4, true].map(editedText)).toEqual(['a\nb', '', '4', 'true'])
  expect(valueOfGroup({ certFile: ' /a.pem', keyFile: '' })).toEqual({ certFile: '/a.pem' })
  expect(valueOfGroup({ certFile: '', keyFile: ' ' })).toBeNull()
})

test.each([
  ['/sandbox/concurrency: must be at most 64', 'sandbox.concurrency', 'must be at most 64'],
  ['/patch/repos/a~1b: is not known', 'repos.a/b', 'is not known'],
  ['the disk is full', undefined, 'the disk is full'],
])('the refusal %p names %p', (message, key, sentence) =>
  expect(refusalOf(message)).toEqual({ key, sentence }),
)

test('a table loses the rows and columns that are gone from its text', () => {
  const before = { a: { input: 1, cacheRead: 2 }, b: { input: 3 } }
  expect(tablePatch(before, { a: { input: 4 }, c: { input: 5 } })).toEqual({
    a: { input: 4, cacheRead: null },
    b: null,
    c: { input: 5 },
  })
  expect(tablePatch(before, null)).toBeNull()
  expect(tablePatch(undefined, 'no JSON')).toBe('no JSON')
})
