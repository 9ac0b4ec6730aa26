/** The accepted subset of YAML means the same to every YAML reader; everything else is refused with advice. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { readFrontMatter } from '../../../../providers/tracker/local/front-matter.ts'
import { measureCpuMs } from '../../../support/cpu-time.ts'

const fields = (...lines: readonly string[]): unknown => {
  const read = readFrontMatter(['---', ...lines, '---', 'text'].join('\n'))
  if (!read.ok) return `${read.fault.line}: ${read.fault.message}`
  return Object.fromEntries([...read.value.entries].map(([key, { value }]) => [key, value]))
}

describe('examples', () => {
  test.each<[string, unknown]>([
    ['a: some text', { a: 'some text' }],
    ['a:   some text  # a comment', { a: 'some text' }],
    ['a: C#-code#1', { a: 'C#-code#1' }],
    ['a: 12', { a: '12' }],
    ['a: http://x.example/y', { a: 'http://x.example/y' }],
    ['a: "x: \\"y\\" # z"  # comment', { a: 'x: "y" # z' }],
    ["a: 'it''s'", { a: "it's" }],
    ['a: ""', { a: '' }],
    ['a:', { a: undefined }],
    ['a: # nothing', { a: undefined }],
    ['a: null', { a: undefined }],
    ['a: ~', { a: undefined }],
    ['a: []', { a: [] }],
    ['a: [x, "y, z", \'w\', u v,] # c', { a: ['x', 'y, z', 'w', 'u v'] }],
    ['a:\n- x\n- "y"', { a: ['x', 'y'] }],
    ['a:\n  # these\n  - x # c\n\n  - y\nb: z', { a: ['x', 'y'], b: 'z' }],
    ['# only a comment', {}],
  ])('%j', (line, expected) => {
    expect(fields(line)).toEqual(expected)
  })

  test.each([
    ['a: Fix: the lamp', /^2: holds a colon and a space; .* in quotes$/],
    ['a: *x', /^2: begins with \*, which means something else in YAML; put it in quotes$/],
    ['a: |\n  x', /^2: begins with \|/],
    ['a: {b: c}', /^2: begins with \{/],
    ['a: "x', /^2: must end its text with the same double quote/],
    ['a: "\\q"', /no backslash but as in JSON$/],
    ["a: 'x", /^2: must end its text with a single quote/],
    ['a: "x" y', /^2: has more behind its value/],
    ['a: [ x ]# y', /^2: has more behind its value/],
    ['a: [x', /^2: a list must end on its line/],
    ['a: [x, [y]]', /^2: /],
    ['a: [x,, y]', /^2: is a list with an item that is empty/],
    ['a: x\na: y', /^3: a is there a second time/],
    ['a: x\n  more', /^3: must be a field such as/],
    ['just words', /^2: must be a field such as/],
    ['- x', /^2: is an item of no list/],
    ['a: x\n- y', /^3: is an item of no list/],
    ['a: [x]\n- y', /^3: is an item of no list/],
    ['a: ~\n- y', /^3: is an item of no list/],
    ['a:\n- ', /^3: is an item with nothing in it/],
    ['a:\n\t- x', /^3: must be a field/],
    ['a: x\ry', /^2: holds a control character; remove it$/],
    ['# \u0000', /^2: holds a control character; remove it$/],
  ])('%j is refused', (line, expected) => {
    expect(fields(line)).toMatch(expected)
  })

  test('front matter begins with the first line and ends with the second ---', () => {
    expect(readFrontMatter('')).toMatchObject({ ok: false, fault: { line: 1 } })
    expect(readFrontMatter('# Title\n---\n---\n')).toMatchObject({ ok: false, fault: { line: 1 } })
    expect(readFrontMatter('---\na: b\n')).toMatchObject({
      ok: false,
      fault: { line: 1, message: expect.stringMatching(/no second ---/) },
    })
    for (const text of ['---\na: b\n---', '---\r\na: b\r\n---\r\n', '--- \na: b\n--- \nbody']) {
      const read = readFrontMatter(text)
      expect(read.ok && [...read.value.entries.keys()]).toEqual(['a'])
    }
  })
})

describe('properties', () => {
  const anyText = fc.string({ unit: fc.constantFrom(...'ab:#-[]{},\'"\\ \t~|é&\r0') })

  test('a text in double quotes reads back unchanged anywhere', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const quoted = JSON.stringify(text)
        expect(fields(`a: ${quoted}`, `b: [${quoted}, ${quoted}]`, 'c:', `- ${quoted}`)).toEqual({
          a: text,
          b: [text, text],
          c: [text],
        })
      }),
    )
  })

  test('any text is read or refused, and offsets point to the value', () => {
    fc.assert(
      fc.property(fc.array(anyText, { maxLength: 5 }), anyText, (lines, value) => {
        const text = ['---', ...lines, `key: ${value}`, '---', ''].join('\n')
        const read = readFrontMatter(text)
        const entry = read.ok ? read.value.entries.get('key') : undefined
        if (entry === undefined || typeof entry.value !== 'string') return
        const spelled = text.slice(entry.from, entry.to)
        expect(fields(`again: ${spelled}`)).toEqual({ again: entry.value })
      }),
      { numRuns: 1000 },
    )
  })
})

test('a list of tens of thousands of lines is read quickly', () => {
  const items = Array.from({ length: 60_000 }, (_, n) => `- x${n % 10}`)
  const expected = { a: items.map((item) => item.slice(2)) }
  let found: unknown
  const tookMs = measureCpuMs(() => {
    found = fields('a:', ...items)
  })
  expect(found).toEqual(expected)
  expect(tookMs).toBeLessThan(3_000)
})
