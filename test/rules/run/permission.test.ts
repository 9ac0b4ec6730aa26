/** Tests of what a person may do to a run, and of the refusals. */
import { describe, expect, test } from '@jest/globals'
import { no, type Result, yes } from '../../../core/result.ts'
import {
  mayDiscard,
  mayDiscardExpired,
  mayFollowPull,
  mayFollowUp,
  mayRetry,
  mayRunTicket,
} from '../../../core/run/permission.ts'
import { RUN_STATUSES, type RunStatus } from '../../../protocol/run.ts'
import { aRun, aTicket, T0, T1 } from './runs.ts'

const verdict = (answer: Result<unknown>): string =>
  answer.ok ? 'yes' : `${answer.refusal.kind}: ${answer.refusal.message}`

test('retry: 409 unless terminal, or when the ticket has another active run', () => {
  const free = { competingRun: undefined, booted: false }
  const may = RUN_STATUSES.filter((status) => mayRetry(aRun({ status }), free).ok)
  expect(may).toEqual(['completed', 'failed', 'cancelled'])
  expect(verdict(mayRetry(aRun({ status: 'failed', prState: 'closed' }), free))).toBe('yes')
  expect(verdict(mayRetry(aRun({ status: 'failed', prState: 'merged' }), free))).toBe(
    `conflict: the pull request of ${aRun().id} is merged already: start its ticket for further work`,
  )
  expect(verdict(mayRetry(aRun({ status: 'running' }), free))).toBe(
    'conflict: run-1 is running: wait for its end or cancel it before a retry',
  )
  expect(verdict(mayRetry(aRun({ status: 'failed' }), { competingRun: 'run-2', booted: false }))).toBe(
    'conflict: ticket ENG-12 has an active run, run-2: wait for its end or cancel it',
  )
})

test('discard: only for a finished run with a sandbox that no one uses', () => {
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

describe('an expired sandbox of a worker', () => {
  const facts = { workerId: 'wk-1', retainedUntil: T0, now: Date.parse(T0) }
  const held = (retainedUntil: string | undefined, status: RunStatus = 'failed') =>
    aRun({ status, sandbox: { workerId: 'wk-1', ...(retainedUntil === undefined ? {} : { retainedUntil }) } })

  test.each([
    ['whose time is over by the run’s record may go', held(T0), true],
    ['stays until the time of the run’s record, whatever the worker’s record says', held(T1), false],
    ['of a run without a time goes by the worker’s record', held(undefined), true],
    ['of a run that may be resumed in it stays', held(undefined, 'queued'), false],
    [
      'of an attempt whose run went to another worker goes by the worker’s record',
      aRun({ status: 'running', sandbox: { workerId: 'wk-2', retainedUntil: T1 } }),
      true,
    ],
    ['of a run that the host does not know stays', undefined, false],
  ])('%s', (_, run, may) => {
    expect(mayDiscardExpired(run, facts)).toBe(may)
  })

  test.each([
    ['of an attempt that is over', aRun({ status: 'completed', sandbox: { workerId: 'wk-2' } })],
    ['of a last attempt whose end the host never heard', held(T0, 'cancelled')],
  ])('%s stays until the time of the worker’s record', (_, run) => {
    expect(mayDiscardExpired(run, { ...facts, retainedUntil: T1 })).toBe(false)
  })
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

test('foreign ticket names are printable in a refusal', () => {
  const ticket = { ...aTicket, identifier: 'ENG\u202e-12\u001b[2J' }
  const messages = [
    verdict(mayRunTicket('x\u202e\u001b[2J', { ticket: undefined, activeRun: undefined })),
    verdict(mayRunTicket('x', { ticket, activeRun: 'run-1' })),
    verdict(mayRetry(aRun({ ticket, status: 'failed' }), { competingRun: 'run-2', booted: false })),
  ]
  for (const message of messages) expect(message).not.toMatch(/[\p{Cc}\p{Cf}]/u)
})

describe('a follow-up', () => {
  const pull = { remote: 'ada/lamps', number: 7 }
  const free = { pull: yes(pull), competingRun: undefined, starting: false, booted: false }
  const done = aRun({ status: 'completed' })

  test('is allowed only for a completed run', () => {
    const may = RUN_STATUSES.filter((status) => mayFollowUp(aRun({ status }), free).ok)
    expect(may).toEqual(['completed'])
    expect(verdict(mayFollowUp(aRun({ status: 'failed' }), free))).toMatch(/^conflict: .*retry it$/)
    expect(verdict(mayFollowUp(aRun({ status: 'queued' }), free))).toMatch(/^conflict: .*wait for its end/)
  })

  test('is refused with lasting reasons before passing ones', () => {
    const nowhere = { ...free, pull: no('invalid', 'run-1 has no pull request'), competingRun: 'run-2' }
    expect(verdict(mayFollowUp(done, nowhere))).toBe('invalid: run-1 has no pull request')
    expect(verdict(mayFollowUp(done, { ...free, competingRun: 'run-2' }))).toMatch(/^conflict: .*run-2/)
    expect(verdict(mayFollowUp(done, { ...free, starting: true }))).toMatch(/^conflict: .*starting already/)
    expect(verdict(mayFollowUp(done, { ...free, booted: true }))).toMatch(/^conflict: .*release it first/)
    expect(mayFollowUp(done, free)).toEqual(yes(pull))
  })

  test('is allowed only while its pull request is open', () => {
    expect(mayFollowPull(done, 'open').ok && mayFollowPull(done, 'draft').ok).toBe(true)
    expect(verdict(mayFollowPull(done, 'merged'))).toBe(
      'conflict: the pull request of run-1 is merged already',
    )
    expect(verdict(mayFollowPull(done, 'closed'))).toMatch(/^conflict: .*reopen it first/)
    expect(verdict(mayFollowPull(done, undefined))).toMatch(/^invalid: .*does not know/)
  })
})
