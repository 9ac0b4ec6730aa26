/** Tests of the normalization of worker names. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { normalizeWorkerName, workerNameOrDefault } from '../../../core/fleet/admission.ts'
import { WORKER_NAME_CHARS_MAX } from '../../../protocol/limits.ts'

test.each([
  ['  attic  ', 'attic'],
  ['the\u0007 attic\u001b[31m', 'the attic[31m'],
  ['at\ntic', 'attic'],
  ['a \u3000 b', 'a b'],
  ['\u202ecitta\u202c', 'citta'],
  ['at\u200btic\ufeff\u2066', 'attic'],
  ['\ud800lone', 'lone'],
  [' \u200b \n ', ''],
  ['x'.repeat(70), 'x'.repeat(60)],
  ['😀'.repeat(70), '😀'.repeat(60)],
  [`${'x'.repeat(59)} y`, 'x'.repeat(59)],
])('%j → %j', (text, name) => {
  expect(normalizeWorkerName(text)).toBe(name)
})

test('an empty name is replaced by the default', () => {
  expect(workerNameOrDefault(' \u0000 ', 'wk-1')).toBe('wk-1')
  expect(workerNameOrDefault(' attic', 'wk-1')).toBe('attic')
})

test('a normalized name is visible, short, on one line, and normalizing it again changes nothing', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary', maxLength: 150 }), fc.string()), (text) => {
      const name = normalizeWorkerName(text)
      expect(name).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|^\s|\s$|\s\s/u)
      expect([...name].length).toBeLessThanOrEqual(WORKER_NAME_CHARS_MAX)
      expect(normalizeWorkerName(name)).toBe(name)
    }),
  )
})
