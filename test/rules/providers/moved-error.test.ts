/** The words with which every tracker refuses to move a ticket that somebody moved elsewhere. */
import { expect, test } from '@jest/globals'
import { refuseMovedTicket } from '../../../providers/tracker/tracker-driver.ts'

test.each([
  ['Backlog', 'ENG-1 was moved to Backlog meanwhile, and stays there'],
  ['a\u0007b', 'ENG-1 was moved to a\ufffdb meanwhile, and stays there'],
])('a ticket in the state %j', (state, message) => {
  expect(refuseMovedTicket('ENG-1', state)).toEqual({ ok: false, refusal: { kind: 'gone', message } })
})
