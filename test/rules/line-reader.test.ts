/** The line reader: by example, and for random input. */
import { describe, expect, jest, test } from '@jest/globals'
import fc from 'fast-check'
import { createLineReader, LINE_BYTES_MAX, TRUNCATED_LINE_BYTES_KEPT } from '../../core/line-reader.ts'

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
          const reader = createLineReader({ marker })
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

  test('that are too long are reported once and left out for a reader who asks for that', () => {
    const onTooLong = jest.fn()
    const reader = createLineReader({ bytesMax: 4, onTooLong })
    const read = ['abcd\nabcde', 'fgh', 'i\nok\n', 'abcdefgh'].flatMap((chunk) => reader.push(bytes(chunk)))
    expect([...read, ...reader.flush()]).toEqual(['abcd', 'ok'])
    expect(onTooLong).toHaveBeenCalledTimes(2)
  })

  test('do not change when the caller reuses its buffer', () => {
    const reader = createLineReader()
    const buffer = Buffer.from('abc')
    reader.push(buffer)
    buffer.fill('z')
    expect(reader.push(bytes('\n'))).toEqual(['abc'])
  })
})
