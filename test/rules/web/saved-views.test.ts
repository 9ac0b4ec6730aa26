/** Saved views: what a browser has kept is read as far as it is one, and names and their number end somewhere. */
import { expect, test } from '@jest/globals'
import {
  VIEW_NAME_CHARS_MAX,
  VIEWS_MAX,
  viewsFrom,
  whyNotSaved,
} from '../../../web/dashboard/runs/saved-views.ts'

test.each([[null], ['null'], ['3'], ['"views"'], ['["status=failed"]'], ['{']])('%s is no views', (kept) => {
  expect(viewsFrom(kept)).toEqual({})
})

test('what is no view is left out', () => {
  const long = 'x'.repeat(VIEW_NAME_CHARS_MAX + 1)
  const kept = { Failures: 'status=failed', Number: 3, Nothing: null, '': 'status=queued', [long]: 'q=x' }
  expect(viewsFrom(JSON.stringify(kept))).toEqual({ Failures: 'status=failed' })
  const many = Object.fromEntries(Array.from({ length: VIEWS_MAX + 5 }, (_, at) => [`View ${at}`, 'q=x']))
  expect(Object.keys(viewsFrom(JSON.stringify(many)))).toHaveLength(VIEWS_MAX)
})

test('a name has an end, and so has the number of views', () => {
  const full = Object.fromEntries(Array.from({ length: VIEWS_MAX }, (_, at) => [`View ${at}`, 'q=x']))
  expect(whyNotSaved('', {})).toBe('The name is missing.')
  expect(whyNotSaved('x'.repeat(VIEW_NAME_CHARS_MAX), {})).toBeUndefined()
  expect(whyNotSaved('x'.repeat(VIEW_NAME_CHARS_MAX + 1), {})).toContain('too long')
  expect(whyNotSaved('Another', full)).toContain('delete one')
  expect(whyNotSaved('View 1', full)).toBeUndefined()
})
