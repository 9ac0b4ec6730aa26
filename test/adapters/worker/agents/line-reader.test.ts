/** Tests of the line reader and of printable text: by example, and for random input. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { toPrintable, toSentence } from '../../../../core/printable-output.ts'
import {
  createLineReader,
  LINE_BYTES_MAX,
  TRUNCATED_LINE_BYTES_KEPT,
} from '../../../../worker/agents/line-reader.ts'
import { measureAsyncCpuMs } from '../../../support/cpu-time.ts'

function linesOf(chunks: readonly Uint8Array[]): string[] {
  const reader = createLineReader()
  return [...chunks.flatMap((chunk) => reader.push(chunk)), ...reader.flush()]
}

const bytes = (text: string): Buffer => Buffer.from(text)

describe('lines', () => {
  test('end with a newline or with the stream, and lose the carriage return', () => {
    expect(linesOf([bytes('a\nb\r\n\r\n\nc')])).toEqual(['a', 'b', '', '', 'c'])
    expect(linesOf([bytes('a\n')])).toEqual(['a'])
    expect(linesOf([])).toEqual([])
  })

  test('replace invalid UTF-8 by a visible sign', () => {
    expect(linesOf([Buffer.from([0xff, 0x41, 0x00, 0x0a])])).toEqual(['\ufffdA\0'])
  })

  test('are the same however their bytes are split', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 400 }),
        fc.array(fc.nat(400), { maxLength: 20 }),
        (all, cuts) => {
          const noisy = all.map((byte) => (byte % 7 === 0 ? 0x0a : byte))
          const places = [0, ...cuts.filter((at) => at < noisy.length), noisy.length].sort((a, b) => a - b)
          const chunks = places.slice(1).map((end, i) => noisy.subarray(places[i], end))
          const whole = Buffer.from(noisy).toString('latin1')
          const expected = whole
            .split('\n')
            .map((line) => Buffer.from(line.replace(/\r$/, ''), 'latin1').toString())
          if (whole === '' || whole.endsWith('\n')) expected.pop()
          expect(linesOf(chunks)).toEqual(expected)
        },
      ),
    )
  })

  test('with a marker are all read, however their bytes are split, when others may be left out', () => {
    const marker = Buffer.from('ab')
    const line = fc.stringMatching(/^[abc\r]{0,6}$/)
    fc.assert(
      fc.property(
        fc.array(line, { maxLength: 12 }),
        fc.array(fc.nat(80), { maxLength: 8 }),
        (lines, cuts) => {
          const all = bytes(lines.join('\n'))
          const places = [0, ...cuts.filter((at) => at < all.length), all.length].sort((a, b) => a - b)
          const reader = createLineReader(marker)
          const read = [
            ...places.slice(1).flatMap((end, i) => reader.push(all.subarray(places[i], end))),
            ...reader.flush(),
          ]
          const marked = (each: readonly string[]) => each.filter((text) => text.includes('ab'))
          expect(marked(read)).toEqual(marked(linesOf([all])))
        },
      ),
    )
  })

  test('of megabytes stay complete', () => {
    const long = 'é'.repeat(LINE_BYTES_MAX / 2)
    expect(linesOf([bytes(`${long}\nnext`)])).toEqual([long, 'next'])
  })

  test('that are too long keep their beginning, a note, and their position', () => {
    const chunk = Buffer.alloc(1024 * 1024, 'x')
    const chunks = [bytes('first\n'), ...Array.from({ length: 20 }, () => chunk), bytes('\nlast')]
    const lines = linesOf(chunks)
    expect(lines.map((line) => line.length < 2 * TRUNCATED_LINE_BYTES_KEPT)).toEqual([true, true, true])
    expect([lines[0], lines[2]]).toEqual(['first', 'last'])
    expect(lines[1]).toMatch(/^x{65536}… \[cut: 20905984 more bytes in this line\]$/)
  })

  test('do not change when the caller reuses its buffer', () => {
    const reader = createLineReader()
    const buffer = Buffer.from('abc')
    reader.push(buffer)
    buffer.fill('z')
    expect(reader.push(bytes('\n'))).toEqual(['abc'])
  })
})

/** Characters that a terminal interprets, except tab and newline. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters
const RAW = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]/

describe('printable text', () => {
  test.each([
    ['\u001b[1;31mred\u001b[0m', 'red'],
    ['\u001b]0;title\u0007text', 'text'],
    ['\u001b]8;;http://x\u001b\\link\u001b]8;;\u001b\\', 'link'],
    ['\u001bPdevice\u001b\\text', 'text'],
    ['\u001b(Btext\u001bc', 'text'],
    ['\u009b31mred', 'red'],
    ['50%\r60%', '50%␍60%'],
    ['a\u0000b\u007fc\u0085', 'a␀b␡c\\u0085'],
    ['safe\u202egnp.exe', 'safe\\u202egnp.exe'],
    ['mark\u061c isolate\u2067 swap\u206a', 'mark\\u061c isolate\\u2067 swap\\u206a'],
    ['windows\r\nline', 'windows\nline'],
    ['emoji \ud83d\udc69\u200d\ud83d\udcbb', 'emoji \ud83d\udc69\u200d\ud83d\udcbb'],
    ['half \u001b[31', 'half ␛[31'],
    ['half \u001b]0;title', 'half ␛]0;title'],
    ['tab\tand\nline', 'tab\tand\nline'],
  ])('%j becomes %j', (text, expected) => {
    expect(toPrintable(text)).toBe(expected)
  })

  test('contains no characters that a terminal interprets, and does not change when converted again', () => {
    const wild = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({
        unit: fc.constantFrom(
          '\u001b',
          '[',
          ']',
          '\\',
          '\u0007',
          '0',
          ';',
          'm',
          '\u009d',
          'P',
          'x',
          '\u202e',
        ),
      }),
    )
    fc.assert(
      fc.property(wild, (text) => {
        expect(toPrintable(text)).not.toMatch(RAW)
        expect(toPrintable(toPrintable(text))).toBe(toPrintable(text))
        expect(toSentence(text, 50)).not.toMatch(/\n/)
      }),
      { numRuns: 500 },
    )
  })

  test.each(['\u001b]', '\u001b[', '\u009d', '\u0090', '\u001bP', '\u001b(', '\u0090\u009d', '\u001b[0;'])(
    'takes a time that grows with the text and no faster: %j',
    async (part) => {
      expect(await measureAsyncCpuMs(() => toPrintable(part.repeat(500_000)))).toBeLessThan(10_000)
    },
  )
})
