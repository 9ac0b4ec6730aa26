/** The writer of YAML, compared with a reader that somebody else wrote. */
import { createRequire } from 'node:module'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { formatYaml, formatYamlDocuments, type YamlMap } from '../../../../bin/cli/deploy/yaml.ts'

interface YamlReader {
  safeLoad(text: string): unknown
  safeLoadAll(text: string): unknown[]
}
const reader: YamlReader = createRequire(import.meta.url)('js-yaml')

const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    ...[
      '',
      ' ',
      '- a',
      'a: b',
      '#',
      '---',
      '...',
      '!!js',
      '&a',
      '*a',
      '%',
      '@',
      '`',
      '"',
      "'",
      '{',
      '[a]',
      '|',
      '>',
    ],
    ...[
      'yes',
      'No',
      'ON',
      'null',
      'Null',
      '~',
      'true',
      '0x1f',
      '1e3',
      '.inf',
      '1:30',
      '2020-01-01',
      '<<',
      '=',
      'a\nb',
    ],
    ...['\u2028', '\u0085', '\ufeff', '\t', 'a #b', 'a:', 'None', '-', '--x', '🚂', '\u007f', 'a\rb: c'],
  ),
)
const key = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_./-]{0,12}$/).filter((each) => !(each in Object.prototype))
const { value } = fc.letrec<{ value: unknown; map: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    text,
    fc.maxSafeInteger(),
    fc.boolean(),
    fc.array(tie('value'), { maxLength: 4 }),
    tie('map'),
  ),
  map: fc.dictionary(key, tie('value'), { maxKeys: 4 }),
}))
const map = fc.dictionary(key, value, { minKeys: 1, maxKeys: 5 })

test('every value is read back as it was', () => {
  fc.assert(
    fc.property(map, (written) => {
      expect(reader.safeLoad(formatYaml(written as YamlMap))).toEqual({ ...written })
    }),
  )
})

test('every line is printable ASCII', () => {
  fc.assert(
    fc.property(map, (written) => {
      expect(formatYaml(written as YamlMap)).toMatch(/^[\x20-\x7e\n]*$/)
    }),
  )
})

test('documents stand behind a comment, each apart', () => {
  const printed = formatYamlDocuments([{ a: 1 }, { b: ['- c'] }], ['one', '', 'two'])
  expect(printed).toBe('# one\n#\n# two\n---\na: 1\n---\nb:\n  - "- c"\n')
  expect(reader.safeLoadAll(printed)).toEqual([{ a: 1 }, { b: ['- c'] }])
})

describe('bugs of ours are thrown', () => {
  test.each<[string, YamlMap]>([
    ['a key that is no plain word', { 'a: b': 1 }],
    ['a key with a line', { 'a\nb': 1 }],
    ['a number with a fraction', { a: 0.5 }],
    ['no number', { a: Number.NaN }],
  ])('%s', (_, written) => {
    expect(() => formatYaml(written)).toThrow('YAML')
  })
})
