/** What a person may do to a run now, and what they are told when not. */
import { expect, test } from '@jest/globals'
import type { Answer } from '../../../core/refusal.ts'
import { mayDiscard, mayRetry, mayRunTicket } from '../../../core/run/permission.ts'
import { RUN_STATUSES } from '../../../protocol/run.ts'
import { aRun, aTicket, T0 } from './runs.ts'

const verdict = (answer: Answer<unknown>): string =>
  answer.ok ? 'yes' : `${answer.refusal.kind}: ${answer.refusal.message}`

test('retry: 409 unless terminal, or when the ticket has another active run', () => {
  const free = { otherActiveRun: undefined, booted: false }
  const may = RUN_STATUSES.filter((status) => mayRetry(aRun({ status }), free).ok)
  expect(may).toEqual(['completed', 'failed', 'cancelled'])
  expect(verdict(mayRetry(aRun({ status: 'running' }), free))).toBe(
    'conflict: run-1 is running: wait for its end or cancel it before a retry',
  )
  expect(verdict(mayRetry(aRun({ status: 'failed' }), { otherActiveRun: 'run-2', booted: false }))).toBe(
    'conflict: ticket ENG-12 has an active run, run-2: wait for its end or cancel it',
  )
})

test('discard: of an ended run, while there is a sandbox, and nobody is in it', () => {
  const ended = aRun({ status: 'failed', sandbox: { id: 'sb-1', retainedUntil: T0 } })
  expect(verdict(mayDiscard(ended, { booted: false }))).toBe('yes')
  expect(verdict(mayDiscard(ended, { booted: true }))).toMatch(/^conflict: .*release/)
  expect(verdict(mayDiscard({ ...ended, status: 'queued' }, { booted: false }))).toMatch(
    /^conflict: .*queued/,
  )
  expect(verdict(mayDiscard({ ...ended, sandbox: {} }, { booted: true }))).toMatch(/^conflict: .*no sandbox/)
  expect(verdict(mayDiscard({ ...ended, sandbox: { retainedUntil: T0 } }, { booted: true }))).toMatch(
    /^gone: /,
  )
})

test('a ticket runs once at a time', () => {
  expect(mayRunTicket('ENG-12', { ticket: aTicket, activeRun: undefined })).toEqual({
    ok: true,
    value: aTicket,
  })
  expect(verdict(mayRunTicket('ENG-12', { ticket: aTicket, activeRun: 'run-2' }))).toMatch(/^conflict: /)
  expect(verdict(mayRunTicket('ENG-13', { ticket: undefined, activeRun: undefined }))).toMatch(
    /^unknown: .*ENG-13/,
  )
})

test('what others call a ticket is printable in a refusal', () => {
  const ticket = { ...aTicket, identifier: 'ENG\u202e-12\u001b[2J' }
  const said = [
    verdict(mayRunTicket('x\u202e\u001b[2J', { ticket: undefined, activeRun: undefined })),
    verdict(mayRunTicket('x', { ticket, activeRun: 'run-1' })),
    verdict(mayRetry(aRun({ ticket, status: 'failed' }), { otherActiveRun: 'run-2', booted: false })),
  ]
  for (const one of said) expect(one).not.toMatch(/[\p{Cc}\p{Cf}]/u)
})
