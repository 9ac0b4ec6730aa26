/** Tests of events as bytes: any text, the limit, many events, and bytes that stay as they were handed out. */
import { expect, test } from '@jest/globals'
import { EventLines, type EventPiece, splitLines } from '../../../actors/runs/run-event-log.ts'

const HEAD = '{"runId":"run-1","index":7'
const NO_LIMIT = Number.POSITIVE_INFINITY
const withText = (text: string): string => JSON.stringify({ type: 'log', text })
const parsed = (pieces: readonly EventPiece[]): unknown[] =>
  pieces.flatMap(({ lines }) => [...splitLines(lines)]).map((line) => JSON.parse(line.toString()))
const countIn = (pieces: readonly EventPiece[]): number => pieces.reduce((sum, { count }) => sum + count, 0)

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
  const taken = lines.take()
  expect(taken).toMatchObject([{ count: 1 }])
  expect(taken[0]?.lines).toHaveLength(bytes)
  expect(taken[0]?.lines.toString()).toBe(`${HEAD},${withText(text).slice(1)}\n`)
  expect(parsed(taken)).toEqual([{ runId: 'run-1', index: 7, type: 'log', text }])
})

test('a line that is longer than the limit is left out, and one that is not is kept', () => {
  const lines = new EventLines()
  const { bytes } = new EventLines().append(HEAD, withText('ümlaut'), NO_LIMIT)
  expect(lines.append(HEAD, withText('ümlaut'), bytes - 1)).toEqual({ isKept: false, bytes })
  expect(lines.count).toBe(0)
  expect(lines.append(HEAD, withText('ümlaut'), bytes)).toEqual({ isKept: true, bytes })
  expect(lines.append(HEAD, withText('next'), NO_LIMIT).isKept).toBe(true)
  expect(lines.count).toBe(2)
  expect(parsed(lines.take())).toMatchObject([{ text: 'ümlaut' }, { text: 'next' }])
})

test('there is room for many events, and later ones do not change those that were taken', () => {
  const lines = new EventLines()
  const texts = Array.from({ length: 10_000 }, (_, n) => `event ${n} ${'é'.repeat(n % 50)}`)
  for (const text of texts) lines.append(HEAD, withText(text), NO_LIMIT)
  expect(lines.count).toBe(texts.length)
  const taken = lines.take()
  expect(countIn(taken)).toBe(texts.length)
  expect(taken.length).toBeGreaterThan(1)
  for (const piece of taken) expect([...splitLines(piece.lines)]).toHaveLength(piece.count)
  expect([lines.count, lines.take()]).toEqual([0, []])
  for (const text of texts) lines.append(HEAD, withText(text.toUpperCase()), NO_LIMIT)
  expect(parsed(taken)).toMatchObject(texts.map((text) => ({ text })))
  expect(parsed(lines.take())).toMatchObject(texts.map((text) => ({ text: text.toUpperCase() })))
})

test('a line that is longer than a piece is one of its own, between others', () => {
  const lines = new EventLines()
  const texts = ['before', 'é'.repeat(200_000), 'after', 'x'.repeat(65_000), 'end']
  for (const text of texts) lines.append(HEAD, withText(text), NO_LIMIT)
  expect(lines.count).toBe(texts.length)
  expect(lines.append(HEAD, withText('y'.repeat(70_000)), 100).isKept).toBe(false)
  const taken = lines.take()
  expect(countIn(taken)).toBe(texts.length)
  expect(parsed(taken)).toMatchObject(texts.map((text) => ({ text })))
})
