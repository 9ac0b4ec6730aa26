/** The function agrees with `JSON.parse` about faults, and names the position without quoting the text. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { findJsonSyntaxError } from '../../../core/settings/read.ts'

const parses = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

const shown = (text: string): string => {
  const fault = findJsonSyntaxError(text)
  return fault === undefined ? 'sound' : `${fault.line}:${fault.column} ${fault.expected}`
}

describe('by example', () => {
  test.each([
    ['{"a": 1}', 'sound'],
    [' [1, -0.5e+3, "x\\u0041", true, null, {}, []] ', 'sound'],
    ['', '1:1 a value'],
    ['{\n  "a": 1,\n}', '3:1 no comma before the closing }'],
    ['{\n  "a": [1,]\n}', '2:11 no comma before the closing ]'],
    ['{\r\n  "a": 1\r\n  "b": 2\r\n}', '3:3 a comma or }'],
    ['{\n  // the port\n  "a": 1}', '2:3 no comment (JSON has none)'],
    ["{'a': 1}", '1:2 a key in double quotes or }'],
    ['{"a" 1}', '1:6 a colon'],
    ['{"a": }', '1:7 a value'],
    ['{"a": "never closed\n}', '1:20 the closing quote'],
    ['{"a": "C:\\home"}', '1:10 a valid escape after the backslash'],
    ['{"a": "\t"}', '1:8 a tab written as \\t'],
    ['{"a": 01}', '1:8 a comma or }'],
    ['{} {}', '1:4 the end of the text'],
    ['[1', '1:3 a comma or ]'],
  ])('%j', (text, expected) => {
    expect(shown(text)).toBe(expected)
  })
})

test('a million open brackets are a syntax error, not a crash', () => {
  expect(shown('['.repeat(1_000_000))).toBe('1:1000001 a value or ]')
})

describe('properties', () => {
  const edited = fc
    .tuple(
      fc.json(),
      fc.array(
        fc.tuple(
          fc.nat(200),
          fc.nat(3),
          fc.constantFrom(...'{}[]:,"\\\n\t 01.e-+tfnu/x\ufeff\u2028', '\u0001'),
        ),
      ),
    )
    .map(([text, edits]) =>
      edits
        .slice(0, 4)
        .reduce((now, [at, removed, put]) => now.slice(0, at) + put + now.slice(at + removed), text),
    )

  test('it finds a fault exactly where JSON.parse refuses', () => {
    fc.assert(
      fc.property(edited, (text) => (findJsonSyntaxError(text) === undefined) === parses(text)),
      { numRuns: 3000 },
    )
  })
})
