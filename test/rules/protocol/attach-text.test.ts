/** Terminal output is forwarded as it is written, and only when the frame contains nothing else. */
import { describe, expect, test } from '@jest/globals'
import * as fc from 'fast-check'
import {
  attachDataPrefix,
  attachDataText,
  readAttachData,
  viewDataText,
} from '../../../protocol/attach-text.ts'
import { readWorkerFrame } from '../../../protocol/frames.ts'
import { ATTACH_DATA_CHARS_MAX } from '../../../protocol/limits.ts'

const ID = 'as-1'
const frame = (json: string, id = ID): string => attachDataText(attachDataPrefix(id), json)
const anyText = fc.string({ unit: 'binary', maxLength: 60 })
const unpaired = fc.constantFrom('\ud800', '\udc00', '😀', '\u2028', '"', '\\', '\x1b[0m', '\x00', '\x7f')
const data = fc.array(fc.oneof(anyText, unpaired), { maxLength: 6 }).map((all) => all.join(''))

test('any output is read like any frame, and reaches views unchanged', () => {
  fc.assert(
    fc.property(data, (text) => {
      const json = JSON.stringify(text)
      expect(readAttachData(frame(json))).toEqual({ sessionId: ID, data: text, json })
      expect(readWorkerFrame(frame(json), true)).toEqual({
        ok: true,
        value: { type: 'attach-data', sessionId: ID, data: text },
      })
      expect(viewDataText(json)).toBe(JSON.stringify({ type: 'data', data: text }))
    }),
  )
})

describe('other frames are not taken for attach-data:', () => {
  test.each<[string, string]>([
    ['a second text', frame('"a","data":"b"')],
    ['a field behind it', frame('"a","type":"exit","code":"0"')],
    ['an object', frame('{"a":"b"}')],
    ['a list', frame('["a"]')],
    ['no text', frame('1')],
    ['a text that is cut', frame('"a')],
    ['a quote too many', frame('"a""')],
    ['a control character', frame('"\x1b"')],
    ['an escape that is none', frame('"\\x1b"')],
    ['half an escape', frame('"\\u00"')],
    ['an id with an escape', frame('"a"', 'as\\u002d1')],
    ['an id that is none', frame('"a"', '../1')],
    ['no id', frame('"a"', '')],
    ['two frames', frame('"a"') + frame('"a"')],
    ['something behind it', `${frame('"a"')}x`],
    ['too long a text', frame(JSON.stringify('x'.repeat(ATTACH_DATA_CHARS_MAX + 1)))],
    ['another frame', '{"type":"attach-exit","sessionId":"as-1","code":0}'],
  ])('%s', (_, text) => {
    expect(readAttachData(text)).toBeUndefined()
  })
})

test('a changed text never contains anything that a view must not receive', () => {
  const hostile = fc.constantFrom(
    '"',
    '\\',
    '"}',
    '","data":"',
    '{',
    '\\u0',
    ',"type":"exit"',
    '\n',
    ' ',
    ']',
  )
  fc.assert(
    fc.property(data, fc.nat(), hostile, fc.nat(3), (text, where, more, less) => {
      const whole = frame(JSON.stringify(text))
      const at = where % whole.length
      const read = readAttachData(whole.slice(0, at) + more + whole.slice(at + less))
      if (read === undefined) return
      expect(JSON.parse(viewDataText(read.json))).toEqual({ type: 'data', data: read.data })
      expect(read.data.length).toBeLessThanOrEqual(ATTACH_DATA_CHARS_MAX)
    }),
    { numRuns: 1_000 },
  )
})
