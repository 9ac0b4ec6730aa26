/** The fields of events and contexts that people may see who inspect actors. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { changedFields, shortName, showFields } from '../../../core/inspection/shown-fields.ts'
import { INSPECT_FIELDS_MAX, INSPECT_TEXT_CHARS_MAX } from '../../../protocol/limits.ts'

describe('shown fields', () => {
  test('are numbers, booleans, and the ids and words that are on the list', () => {
    const event = {
      type: 'granted',
      leaseId: 'l-1',
      at: '2026-01-31T12:00:00.000Z',
      attempts: 2,
      unwanted: true,
    }
    expect(showFields(event)).toEqual({
      fields: { leaseId: 'l-1', at: '2026-01-31T12:00:00.000Z', attempts: 2, unwanted: true },
      hidden: 0,
    })
  })

  test('of objects within stand under their path', () => {
    expect(showFields({ run: { status: 'queued', cost: { usd: 1.5 } } }).fields).toEqual({
      'run.status': 'queued',
      'run.cost.usd': 1.5,
    })
  })

  test('say of other texts, lists and deep objects only how large they are', () => {
    const shown = showFields({
      token: 'ghp_1234',
      reason: 'a',
      instructions: '',
      waiting: [1, 2],
      a: { b: { c: { d: 1 } } },
    })
    expect(shown).toEqual({
      fields: {
        token: '(text, 8 characters)',
        reason: '(text, 1 character)',
        instructions: '',
        waiting: '(list, 2 entries)',
        'a.b.c': '(record)',
      },
      hidden: 4,
    })
  })

  test('leave out a listed text that is no single word, and names that are data', () => {
    const shown = showFields({ status: 'token ghp_1234', records: { 'ghp_1234 5': 1, 'a-b': 2 } })
    expect(shown).toEqual({ fields: { status: '(text, 14 characters)' }, hidden: 3 })
  })

  test('are limited in number', () => {
    const many = Object.fromEntries(Array.from({ length: INSPECT_FIELDS_MAX + 10 }, (_, n) => [`f${n}`, n]))
    const shown = showFields(many)
    expect([Object.keys(shown.fields).length, shown.hidden]).toEqual([INSPECT_FIELDS_MAX, 10])
  })

  test('never hold the text of a field that is not on the list', () => {
    const secret = 'k3y-Secret-7f3a'
    const field = fc.constantFrom(
      'token',
      'code',
      'secret',
      'prompt',
      'instructions',
      'data',
      'reason',
      'text',
    )
    const tree = fc.letrec<{ node: unknown }>((tie) => ({
      node: fc.oneof(
        fc.constantFrom(secret, `Bearer ${secret}`, 3),
        fc.array(tie('node'), { maxLength: 2 }),
        fc.dictionary(field, tie('node'), { maxKeys: 3 }),
      ),
    })).node
    fc.assert(fc.property(tree, (value) => !JSON.stringify(showFields({ value })).includes(secret)))
  })
})

test('changed fields are those with another value; gone ones are null', () => {
  expect(changedFields({ a: 1, b: 2, c: 3 }, { a: 1, b: 5, d: 4 })).toEqual({ b: 5, d: 4, c: null })
  expect(changedFields({ a: 1 }, { a: 1 })).toBeUndefined()
})

test('names are cut to what a frame allows', () => {
  expect(shortName('run/a')).toBe('run/a')
  expect(shortName('x'.repeat(1_000))).toHaveLength(INSPECT_TEXT_CHARS_MAX)
})
