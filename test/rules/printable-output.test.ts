import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { printableTexts, toPrintable, toSentence } from '../../core/printable-output.ts'
import { measureAsyncCpuMs } from '../support/cpu-time.ts'

const unit = fc.constantFrom(
  'a',
  'é',
  '💡',
  '\u001b',
  '[2J',
  ']0;t\u0007',
  '\u009b',
  '\u202e',
  '\u0000',
  '\r\n',
  '\u007f',
)

test('a printable text is not empty unless it was, and no longer, so a record keeps within its limits', () => {
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 20 }), (text) => {
      const [printable = ''] = printableTexts([text])
      expect(printable === '').toBe(text === '')
      expect(printable.length).toBeLessThanOrEqual(text.length)
    }),
  )
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
