/** The sentence that explains a ticket or a run. */
import { expect, test } from '@jest/globals'
import { productName } from '../../../client/agent-names.ts'
import { explanationOf } from '../../../client/explanation.ts'
import { SampleRecords } from '../../support/sample-records.ts'

test('a command and a page name the agent of a waiting run in their own words', () => {
  const run = new SampleRecords(Date.now()).run(1, 'queued', { queueReason: 'no worker has agentA' })
  const explained = { ticket: run.ticket, run, gates: [] }
  const name = run.ticket.identifier
  expect(explanationOf(explained, name)).toBe(`${name} waits: no worker has claude`)
  expect(explanationOf(explained, name, productName)).toBe(`${name} waits: no worker has Claude Code`)
})
