/** Tests of events as bytes: any text, the limit, many events, and bytes that stay as they were handed out. */
import { expect, test } from '@jest/globals'
import { EventLines } from '../../../actors/runs/event-lines.ts'

const HEAD = '{"runId":"run-1","index":7'
const NO_LIMIT = Number.POSITIVE_INFINITY
const withText = (text: string): string => JSON.stringify({ type: 'log', text })
const parsed = (lines: Iterable<Uint8Array>): unknown[] =>
  [...lines].map((line) => JSON.parse(Buffer.from(line).toString()))

test.each([
  '',
  'plain',
  'quoted "twice"\n',
  'ümlaut',
  '\u2028 and \u0000',
  '😀',
  '\ud800 alone',
  '漢'.repeat(999),
])('a line is the event in one object, and counts the bytes that it takes: %j', (text) => {
  const lines = new EventLines()
  const { isKept, bytes } = lines.append(HEAD, withText(text), NO_LIMIT)
  expect(isKept).toBe(true)
  expect(lines.bytes).toHaveLength(bytes)
  expect(lines.bytes.toString()).toBe(`${HEAD},${withText(text).slice(1)}\n`)
  expect(parsed(lines)).toEqual([{ runId: 'run-1', index: 7, type: 'log', text }])
})

test('a line that is longer than the limit is left out, and one that is not is kept', () => {
  const lines = new EventLines()
  const { bytes } = new EventLines().append(HEAD, withText('ümlaut'), NO_LIMIT)
  expect(lines.append(HEAD, withText('ümlaut'), bytes - 1)).toEqual({ isKept: false, bytes })
  expect([lines.count, lines.bytes.length]).toEqual([0, 0])
  expect(lines.append(HEAD, withText('ümlaut'), bytes)).toEqual({ isKept: true, bytes })
  expect(lines.append(HEAD, withText('next'), NO_LIMIT).isKept).toBe(true)
  expect(parsed(lines)).toMatchObject([{ text: 'ümlaut' }, { text: 'next' }])
})

test('there is room for many events, and later ones do not change bytes that were handed out', () => {
  const lines = new EventLines()
  const texts = Array.from({ length: 10_000 }, (_, n) => `event ${n} ${'é'.repeat(n % 50)}`)
  let early: { readonly bytes: Buffer; readonly text: string } | undefined
  for (const [n, text] of texts.entries()) {
    lines.append(HEAD, withText(text), NO_LIMIT)
    if (n === 100) early = { bytes: lines.bytes, text: lines.bytes.toString() }
  }
  expect(lines.count).toBe(texts.length)
  expect(parsed(lines)).toMatchObject(texts.map((text) => ({ text })))
  expect(early?.bytes.toString()).toBe(early?.text)
})
