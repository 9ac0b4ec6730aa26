/** Tests of cutting lines at the width of a terminal. */
import { expect, test } from '@jest/globals'
import { truncateToWidth } from '../../../bin/quickstart/truncate-to-width.ts'

test.each([
  ['fits', 4, 'fits'],
  ['does not fit', 6, 'does …'],
  ['検証検証', 8, '検証検証'],
  ['検証検証', 7, '検証検…'],
  ['検証検証', 6, '検証…'],
  ['e\u0301e\u0301', 2, 'e\u0301e\u0301'],
])('%j at %i columns is %j', (line, columns, expected) => {
  expect(truncateToWidth(line, columns)).toBe(expected)
})
