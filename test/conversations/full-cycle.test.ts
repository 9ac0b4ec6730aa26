/** A run from its ticket to its end, as a transcript of host and worker. */
import { expect, test } from '@jest/globals'
import { expectRecorded } from '../support/recorded-expectations.ts'
import { enroll, startHost, ticket, Work } from './host-conversation.ts'

test('a ticket becomes a run, is dispatched at once, reports and completes', async () => {
  const host = await startHost()
  const { connection } = await enroll(host)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const work = new Work(connection.lastReceived('dispatch'))
  await connection.send(work.accept(), work.running(), work.event(), work.complete())
  expectRecorded(host.transcript)
  expect(host.run(work.runId).status).toBe('completed')
  expect(await host.events(work.runId)).toEqual([
    'status queued',
    'status preparing',
    'status running',
    'stdout hello',
    'status completed',
  ])
})
