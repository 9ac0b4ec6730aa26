import { expect, test } from '@jest/globals'
import { runInCommand, showPullCommand, ticketInCommand } from '../../../core/run/name-in-commands.ts'
import { fakeTicket } from '../../support/fake-host-api.ts'

const run = (identifier: string, prUrl?: string) => ({
  id: 'run-01a203abc33070008000000000000002',
  ticket: fakeTicket(identifier),
  ...(prUrl === undefined ? {} : { prUrl }),
})

test.each([
  ['ENG-12', 'ENG-12', 'ENG-12'],
  ['acme/api#12', '01a203abc33070008000000000000002', "'acme/api#12'"],
  ['#12', '01a203abc33070008000000000000002', "'#12'"],
])('a shell takes %s as one word', (identifier, ofRun, ofTicket) => {
  expect([runInCommand(run(identifier)), ticketInCommand({ identifier })]).toEqual([ofRun, ofTicket])
})

test('a browser opens a page, and the command shows what is a file', () => {
  expect(showPullCommand(run('ENG-12', 'https://host.example/pull/7'))).toBe('switchyard runs open ENG-12')
  expect(showPullCommand(run('ENG-12', 'file:///data/7.json'))).toBe('switchyard pulls show ENG-12')
})
