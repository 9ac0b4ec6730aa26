/** The digits of ids that people see. */
import { expect, test } from '@jest/globals'
import { RUN_DIGITS, shortenIds, shortId, WORKER_DIGITS } from '../../../../bin/output/short-names.ts'

const RUN = 'run-01a20393fd407b3c9e01a4d8f2c60b17'
const SAME_MILLISECOND = 'run-01a20393fd407b3c9e01a4d8f2c60b18'
const LATER = 'run-01a203abc330700000000000000000aa'

test.each<[string[], number, string[]]>([
  [[RUN, LATER], RUN_DIGITS, ['01a20393fd40', '01a203abc330']],
  [
    [RUN, SAME_MILLISECOND, LATER],
    RUN_DIGITS,
    [
      '01a20393fd407b3c9e01a4d8f2c60b17',
      '01a20393fd407b3c9e01a4d8f2c60b18',
      '01a203abc330700000000000000000aa',
    ],
  ],
  [[RUN, RUN], RUN_DIGITS, ['01a20393fd40', '01a20393fd40']],
  [['wk-9e027c1b40aa6d35', 'wk-11aa'], WORKER_DIGITS, ['9e02', '11aa']],
  [['wk-9e027c1b', 'wk-9e02ffff'], WORKER_DIGITS, ['9e027', '9e02f']],
  [['wk-9e02', 'wk-9e02ffff'], WORKER_DIGITS, ['9e02', '9e02f']],
  [[], RUN_DIGITS, []],
])('%j are shown as %i digits or more', (ids, digits, shown) => {
  const short = shortenIds(ids, digits)
  expect(ids.map((id) => short.get(id))).toEqual(shown)
})

test('a single id is shown without its kind', () => {
  expect([shortId(RUN), shortId('wk-9e027c1b40aa6d35', WORKER_DIGITS)]).toEqual(['01a20393fd40', '9e02'])
})
