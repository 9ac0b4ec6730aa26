import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { printableTexts } from '../../core/printable-output.ts'

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
