/** One run from its ticket to its end, as host and worker say it. */
import { expect, test } from '@jest/globals'
import { enroll, ticket, Work, yarn } from './host-conversation.ts'

test('a ticket becomes a run, is dispatched at once, reports and completes', async () => {
  const y = await yarn()
  const { wire } = await enroll(y)
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  const work = new Work(wire.last('dispatch'))
  await wire.say(work.accept(), work.running(), work.event(), work.complete())
  expect(y.said).toEqual([
    'worker → host  register',
    'host → worker  registered, with a credential',
    'host → worker  lease-ack of nothing',
    'host → worker  dispatch ENG-1',
    'worker → host  dispatch-accepted ENG-1',
    'worker → host  run-patch ENG-1 #1 running',
    'worker → host  run-event ENG-1 #2',
    'worker → host  run-complete ENG-1 #3 completed',
    'host → worker  run-complete-ack ENG-1',
  ])
  expect(y.run(work.runId).status).toBe('completed')
  expect(await y.events(work.runId)).toEqual([
    'status queued',
    'status preparing',
    'status running',
    'stdout hello',
    'status completed',
  ])
})
