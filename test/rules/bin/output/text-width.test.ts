/** The columns of texts, and where texts are truncated and wrapped. */
import { describe, expect, test } from '@jest/globals'
import {
  cleanLine,
  columnsOf,
  padEnd,
  padStart,
  replaceControls,
  toAscii,
  truncateEnd,
  truncateMiddle,
  wrapWords,
} from '../../../../bin/output/text-width.ts'

test.each([
  ['', 0],
  ['abc', 3],
  ['é', 1],
  ['e\u0301', 1],
  ['登録フォームの検証', 18],
  ['ｶﾅ', 2],
  ['한국어', 6],
  ['\u1112\u1161\u11ab', 2],
  ['Ａ', 2],
  ['▸ ◦ ✓ … “ä”', 11],
  ['🙂', 2],
  ['👩‍👩‍👧‍👦', 2],
  ['🇩🇪', 2],
  ['❤️', 2],
  ['❤', 1],
  ['1️⃣', 2],
  ['© ™', 3],
  ['กำ', 2],
  ['नि', 1],
  ['😀日本', 6],
])('%j has %i columns', (text, columns) => {
  expect(columnsOf(text)).toBe(columns)
})

test.each([
  ['a\x1b[31mb', 'a?[31mb'],
  ['a\nb\r\nc\td', 'a b c d'],
  ['\u202eevil', '?evil'],
  ['a\u009bb\u007f', 'a?b?'],
  ['\ud800', '?'],
  ['👩‍👧 می‌خواهم', '👩‍👧 می‌خواهم'],
])('%j is shown in one line as %j', (text, shown) => {
  expect(cleanLine(text)).toBe(shown)
})

test('lines stay lines where a text has several', () => {
  expect(replaceControls('a\r\n\tb\x07')).toBe('a\n\tb?')
})

test('a terminal of ASCII gets a question mark for each other character', () => {
  expect(toAscii('登録 ok é\n🙂')).toBe('?? ok ?\n?')
})

describe('truncating', () => {
  test.each([
    ['fits', 4, 'fits'],
    ['does not fit', 6, 'does …'],
    ['検証検証', 8, '検証検証'],
    ['検証検証', 7, '検証検…'],
    ['検証検証', 6, '検証…'],
    ['e\u0301e\u0301', 2, 'e\u0301e\u0301'],
    ['Say which file is too large', 20, 'Say which file is t…'],
    ['abc', 1, '…'],
    ['abc', 0, ''],
  ])('the end of %j at %i columns gives %j', (text, columns, expected) => {
    expect(truncateEnd(text, columns)).toBe(expected)
  })

  test.each([
    ['src/form.ts', 11, '…', 'src/form.ts'],
    ['packages/server/src/index.ts', 15, '…', 'package…ndex.ts'],
    ['packages/server/src/index.ts', 15, '...', 'packag...dex.ts'],
    ['検証検証検証', 8, '…', '検証…証'],
    ['abcdef', 2, '…', 'a…'],
  ])('the middle of %j at %i columns with %s gives %j', (text, columns, ellipsis, expected) => {
    expect(truncateMiddle(text, columns, ellipsis)).toBe(expected)
  })

  test('the ASCII ellipsis has three columns', () => {
    expect(truncateEnd('does not fit', 8, '...')).toBe('does ...')
    expect(truncateEnd('abc', 2, '...')).toBe('..')
  })
})

test.each([
  ['one two three', 7, ['one two', 'three']],
  ['a https://example.org/long b', 8, ['a', 'https://example.org/long', 'b']],
  ['検証 検証', 8, ['検証', '検証']],
  ['', 8, ['']],
  ['  indented text', 12, ['  indented', 'text']],
])('%j wraps at %i columns into %j', (text, columns, lines) => {
  expect(wrapWords(text, columns)).toEqual(lines)
})

test('prose has at most 100 columns on a wide terminal', () => {
  expect(wrapWords('word '.repeat(30).trim(), 200).map((line) => line.length)).toEqual([99, 49])
})

test('padding counts columns', () => {
  expect([padEnd('検', 4), padStart('検', 4), padEnd('long', 2)]).toEqual(['検  ', '  検', 'long'])
})
