/** The rule for runs that follow the edits of their tickets, and for what an edit changes. */
import { expect, test } from '@jest/globals'
import { followTicket, mayFollowTicket } from '../../../core/run/edited-ticket.ts'
import { aRun, aTicket } from './runs.ts'

const waiting = { run: aRun(), job: 'run', lease: null, publishing: null } as const

test.each([
  ['waits for its first worker', waiting, true],
  ['was interrupted or given back', { ...waiting, run: aRun({ sandbox: { workerId: 'wk-1' } }) }, true],
  ['has a lease', { ...waiting, lease: 'ls-1' }, false],
  ['is prepared by a worker', { ...waiting, run: aRun({ status: 'preparing' }), lease: 'ls-1' }, false],
  ['has a pull request', { ...waiting, run: aRun({ prUrl: 'https://codehost.example/pr/1' }) }, false],
  ['waits to be published', { ...waiting, publishing: {} }, false],
  ['waits for its follow-up', { ...waiting, job: 'follow-up' as const }, false],
  ['has ended', { ...waiting, run: aRun({ status: 'failed' }) }, false],
])('a run that %s follows its ticket: %#', (_, run, follows) => {
  expect(mayFollowTicket(run)).toBe(follows)
})

test('all of the edited ticket is taken over but its state', () => {
  const { branchName: _, ...ticket } = aTicket
  const edited = { ...ticket, repo: 'web', title: 'Other', labels: ['web'], priority: 1 as const }
  const run = aRun()
  expect(followTicket(run, { ...edited, state: 'In Progress' })).toEqual({ ...run, ticket: edited })
})

test('a ticket that reads as before, or stands only in another state, changes nothing', () => {
  const run = aRun()
  expect(followTicket(run, structuredClone(aTicket))).toBe(run)
  expect(followTicket(run, { ...aTicket, state: 'In Progress' })).toBe(run)
})
