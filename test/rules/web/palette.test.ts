/** Typed words are found in any order, wherever they stand. */
import { expect, test } from '@jest/globals'
import { matchWords } from '../../../web/dashboard/shell/match-words.ts'

test.each([
  ['Retry ENG-398', 'ret', [[0, 3]]],
  [
    'Retry ENG-398',
    '398 re',
    [
      [0, 2],
      [10, 13],
    ],
  ],
  ['Retry ENG-398', '', []],
  ['Retry ENG-398', 'ret retr', [[0, 3]]],
  ['Retry ENG-398', 'merge', undefined],
])('%s has %s at %p', (title, typed, ranges) => expect(matchWords(title, typed)).toEqual(ranges))
