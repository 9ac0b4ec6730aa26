/** Tests of what a listing may not show yet of the host's own changes. */
import { expect, test } from '@jest/globals'
import { HostChanges, TICKET_MOVE_VISIBLE_MS_MAX } from '../../../core/tickets/host-changes.ts'
import { sampleTicket, tracked } from './samples.ts'

const in_ = (state: string) => sampleTicket({ state })
const { id } = in_('Todo')

type Step = (changes: HostChanges) => unknown
const poll: Step = (changes) => changes.beginPoll()
const list: Step = (changes) => changes.completeListing([])
const answer: Step = (changes) => changes.addAnswered(id)
const move =
  (from: string, to: string, now = 0): Step =>
  (changes) =>
    changes.addMove(id, [from], to, now)
const see =
  (state: string, now = 0): Step =>
  (changes) =>
    changes.isOutdated(in_(state), now)

const LATE = TICKET_MOVE_VISIBLE_MS_MAX

test.each<[string, readonly Step[], ReturnType<Step>]>([
  ['nothing was moved', [poll, list, see('Todo')], false],
  ['a move is answered after the listing', [poll, list, answer, see('Todo')], true],
  ['the poll began before the answer', [poll, answer, list, see('Todo')], true],
  ['the poll began after the answer', [answer, poll, list, see('Todo')], false],
  ['the next poll is under way', [poll, list, answer, poll, see('Todo')], true],
  ['the tracker shows a move late', [poll, list, move('Todo', 'Doing'), see('Todo')], true],
  ['the tracker shows the move', [poll, list, move('Todo', 'Doing'), see('Doing')], false],
  ['a person moves the ticket on', [poll, list, move('Todo', 'Doing'), see('Done')], false],
  ['the move has been seen before', [move('Todo', 'Doing'), see('Doing'), see('Todo')], false],
  ['the time for showing it has passed', [move('Todo', 'Doing'), see('Todo', LATE)], false],
  ['names differ in case only', [move('Todo', 'Doing'), see('todo')], true],
  [
    'the first of two moves shows late',
    [move('Todo', 'Doing'), move('Doing', 'Review', 1), see('Todo', LATE)],
    true,
  ],
  ['the ticket is back where it was', [move('Todo', 'Doing'), move('Doing', 'Todo'), see('Todo')], false],
])('a listed state counts as outdated or not when %s', (_, steps, outdated) => {
  const changes = new HostChanges()
  expect(steps.map((step) => step(changes)).at(-1)).toBe(outdated)
})

test('a ticket is recent until the tracker has listed it after its move', () => {
  const changes = new HostChanges()
  const isRecent = (...steps: readonly Step[]) => {
    for (const step of steps) step(changes)
    return changes.isRecent(id)
  }
  expect(isRecent(answer, move('Todo', 'Doing'))).toBe(true)
  expect(isRecent(poll, list)).toBe(true)
  expect(isRecent(see('Doing'))).toBe(false)
  move('Todo', 'Doing')(changes)
  changes.addMove('another', [], 'Doing', LATE)
  expect(changes.isRecent(id)).toBe(false)
})

test('a listing is completed by the tickets that were created since its poll began', () => {
  const changes = new HostChanges()
  const [old, both, late] = ['old', 'both', 'late'].map((name) => tracked({ id: name }))
  if (old === undefined || both === undefined || late === undefined) throw new Error('three tickets')
  changes.addCreated(old)
  changes.beginPoll()
  for (const each of [both, late]) changes.addCreated(each)
  expect(changes.completeListing([both])).toEqual([late, both])
  changes.forgetCreated()
  expect(changes.completeListing([both])).toEqual([both])
})
