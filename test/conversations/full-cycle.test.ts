/** One run from its ticket to its end, as host and worker say it. */
import { expect, test } from '@jest/globals'
import { expectRecorded } from '../support/recorded-expectations.ts'
import { enroll, ticket, Work, yarn } from './host-conversation.ts'

test('a ticket becomes a run, is dispatched at once, reports and completes', async () => {
  const y = await yarn()
  const { wire } = await enroll(y)
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  const work = new Work(wire.last('dispatch'))
  await wire.say(work.accept(), work.running(), work.event(), work.complete())
  expectRecorded(y.said)
  expect(y.run(work.runId).status).toBe('completed')
  expect(await y.events(work.runId)).toEqual([
    'status queued',
    'status preparing',
    'status running',
    'stdout hello',
    'status completed',
  ])
})
