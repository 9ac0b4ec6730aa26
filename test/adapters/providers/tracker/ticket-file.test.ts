/** A Markdown file is read as a ticket, and its state is rewritten. The words about invalid files stand in test/rules. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { CLOSED_STATES, readTicket, replaceState } from '../../../../providers/tracker/local/ticket-file.ts'

const at = '2026-01-01T00:00:00.000Z'
const facts = { name: 'ENG-1.md', url: 'file:///t/ENG-1.md', createdAt: at, updatedAt: at }

const read = (text: string | Uint8Array) => {
  const outcome = readTicket(typeof text === 'string' ? Buffer.from(text) : text, facts)
  return outcome.ok ? outcome.tracked : outcome.problem
}

const withFields = (...lines: readonly string[]) => read(['---', ...lines, '---', ''].join('\n'))

test('a complete ticket', () => {
  const text = [
    '---',
    'id: 7',
    'identifier: LAMP-7',
    'title: "Fix: the lamp"',
    'url: https://lamps.example/7',
    'state: In Progress',
    'priority: High',
    'labels: [bug, ui]',
    'assignee: ada',
    'project: Lamps',
    'branchName: ada/lamp-7',
    'repo: lamps',
    'blockedBy:',
    '  - ENG-3',
    'createdAt: 2026-02-01',
    'updatedAt: 2026-02-01 12:00:00+01:00',
    'x-mood: whatever',
    '---',
    '',
    'It flickers.',
    '',
    'At night.',
    '',
  ]
  const expected = {
    ticket: {
      id: '7',
      identifier: 'LAMP-7',
      title: 'Fix: the lamp',
      description: 'It flickers.\n\nAt night.',
      url: 'https://lamps.example/7',
      state: 'In Progress',
      priority: 2,
      labels: ['bug', 'ui'],
      assignee: 'ada',
      project: 'Lamps',
      branchName: 'ada/lamp-7',
      repo: 'lamps',
      blockedBy: ['ENG-3'],
      createdAt: '2026-02-01T00:00:00.000Z',
      updatedAt: '2026-02-01T11:00:00.000Z',
    },
    closed: false,
  }
  expect(read(text.join('\n'))).toEqual(expected)
  expect(read(text.join('\r\n'))).toEqual(expected)
  expect(read(`\ufeff${text.join('\n')}`)).toEqual(expected)
})

test('missing fields default to the file’s name and times', () => {
  expect(read('---\n---')).toEqual({
    ticket: {
      id: 'ENG-1',
      identifier: 'ENG-1',
      title: 'ENG-1',
      description: '',
      url: 'file:///t/ENG-1.md',
      state: '',
      priority: 0,
      labels: [],
      blockedBy: [],
      createdAt: at,
      updatedAt: at,
    },
    closed: false,
  })
})

test.each([...CLOSED_STATES, 'DONE', '" Canceled "'])('%s is closed', (state) => {
  expect(withFields(`state: ${state}`)).toMatchObject({ closed: true })
})

test.each<[string, number]>([
  ['urgent', 1],
  ['HIGH', 2],
  ['medium', 3],
  ['low', 4],
  ['none', 0],
  ['3', 3],
  ['"1"', 1],
])('priority %s is %d', (word, priority) => {
  expect(withFields(`priority: ${word}`)).toMatchObject({ ticket: { priority } })
})

// ---- changing the state ---------------------------------------------------------------------------------------------

const moved = (text: string, state: string): string | undefined =>
  replaceState(Buffer.from(text), state)?.toString()

test.each<[string, string, string, string]>([
  ['the value', '---\nstate: Todo\n---\nstate: Todo\n', 'Done', '---\nstate: Done\n---\nstate: Todo\n'],
  ['a comment stays', '---\nstate:   "To do"  # why\n---', 'Done', '---\nstate:   Done  # why\n---'],
  ['CRLF stays', '---\r\nstate: a\r\nx-é: b\r\n---\r\n', 'b', '---\r\nstate: b\r\nx-é: b\r\n---\r\n'],
  ['an empty one', '---\nstate:   # c\n---', 'Done', '---\nstate: Done   # c\n---'],
  ['none', '---\r\ntitle: a\r\n---\r\nb', 'Done', '---\r\ntitle: a\r\nstate: Done\r\n---\r\nb'],
  ['behind a mark', '\ufeff---\ntitle: é à\nstate: a\n---\n', 'b', '\ufeff---\ntitle: é à\nstate: b\n---\n'],
  ['odd words are quoted', '---\nstate: a\n---', 'no', '---\nstate: "no"\n---'],
  ['odd signs, too', '---\nstate: a\n---', 'In: "ß"', '---\nstate: "In: \\"ß\\""\n---'],
])('%s', (_, text, state, expected) => {
  if (!text.includes('x-é')) expect(moved(text, state)).toBe(expected)
  else expect(moved(text.replace('x-é', 'x-e'), state)).toBe(expected.replace('x-é', 'x-e'))
})

test('any state reads back unchanged, and no other byte changes', () => {
  const line = fc.constantFrom('title: é\u00a0à', '# n\u0085te', 'labels: [a]', '', 'x-y: "ÿ"')
  const state = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 20 }),
    fc.string({ unit: 'binary-ascii', maxLength: 20 }),
  )
  const ending = fc.constantFrom('\n', '\r\n')
  fc.assert(
    fc.property(fc.uniqueArray(line), fc.boolean(), state, ending, (lines, hasState, to, end) => {
      const all = hasState ? [...lines, 'state: Todo # c'] : lines
      const text = ['---', ...all, '---', 'bödy', ''].join(end)
      const after = moved(text, to) ?? ''
      expect(read(after)).toMatchObject({ ticket: { state: to, description: 'bödy' } })
      const back = moved(after, 'Todo') ?? ''
      expect(back).toBe(hasState ? text : ['---', ...all, 'state: Todo', '---', 'bödy', ''].join(end))
    }),
  )
})

test('an id fits the key limit of the store and is never cut', () => {
  const longest = '課'.repeat(85)
  expect(withFields(`id: ${longest}`)).toMatchObject({ ticket: { id: longest } })
  expect(withFields('title: x', `id: ${longest}課`)).toMatch(/^ENG-1\.md, line 3: id: .* 256 bytes/)
  expect(withFields('id: "\\ud83d\\ude00"')).toMatchObject({ ticket: { id: '😀' } })
  expect(withFields('id: "\\ud83d"')).toMatch(/^ENG-1.md, line 2: must end its text/)
})

test('a title turns no words around it, and covers nothing above it', () => {
  const title = (text: string) => read(`---\ntitle: ${text}\n---\n`)
  expect(title(`bad \u202egnp.exe\u2067 e${'\u0301'.repeat(10_000)}!`)).toMatchObject({
    ticket: { title: `bad \ufffdgnp.exe\ufffd e${'\u0301'.repeat(8)}!` },
  })
  const usual = 'שלום \u200fעולם, 👩\u200d🔧 नि और e\u0301'
  expect(title(usual)).toMatchObject({ ticket: { title: usual } })
})

test.each(['--yes', 'ENG-1\u202e', 'ENG\u200b-1'])('no ticket is named %j', (identifier) => {
  expect(withFields('title: t', `identifier: ${identifier}`)).toMatch(
    /^ENG-1\.md, line 3: identifier: must not begin with a dash, .* set another identifier$/,
  )
})
