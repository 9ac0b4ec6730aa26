/** How tickets come in: when the tracker is looked at, and what a tracker in trouble changes. */
import { expect, test } from '@jest/globals'
import { no } from '../../core/result.ts'
import { configWith, ticket, type Yarn, yarn } from './host-conversation.ts'

async function looksDuring(y: Yarn, seconds: number): Promise<number> {
  const before = y.tracker.looks
  await y.pass(seconds)
  return y.tracker.looks - before
}

test('the tracker is looked at once at the start, and then every tracker.pollSeconds', async () => {
  const y = await yarn()
  expect(y.tracker.looks).toBe(1)
  expect(await looksDuring(y, 300)).toBe(10)
})

test('tracker.pollSeconds is configured', async () => {
  const y = await yarn(configWith({ tracker: { driver: 'local', path: '/nowhere', pollSeconds: 5 } }))
  expect(await looksDuring(y, 60)).toBe(12)
})

test('a change that the tracker tells of is seen at once', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(y.desk.tickets()).toHaveLength(1)
})

test('there is one look at a time; what changes during one is looked for once more', async () => {
  const y = await yarn()
  const looks = y.tracker.looks
  for (let times = 0; times < 10; times++) y.tracker.touch()
  await y.settle()
  expect(y.tracker.looks - looks).toBe(2)
})

test('`auth-error`: the stored credential is dead, polling paused until reconnect', async () => {
  const y = await yarn()
  y.tracker.answer = no('unauthorized', 'the key is dead')
  await y.pass(30)
  expect(y.desk.hello().linearStatus).toEqual({ state: 'auth-error', error: 'the key is dead' })
  expect(await looksDuring(y, 600)).toBe(0)
  y.tracker.answer = undefined
  await y.done(y.desk.changeSettings({ tracker: { apiUrl: 'https://example.com' } }))
  await y.settle()
  expect(y.desk.hello().linearStatus).toEqual({ state: 'connected' })
  expect(await looksDuring(y, 60)).toBe(2)
})

test('a tracker that cannot be reached for a while keeps its tickets, and is looked at again', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1', { state: 'Backlog' }), ticket('ENG-2'))
  await y.settle()
  y.tracker.answer = no('unavailable', 'no route to it')
  await y.pass(60)
  expect(y.desk.hello().linearStatus).toEqual({ state: 'connected', error: 'no route to it' })
  expect(y.desk.tickets()).toHaveLength(1)
  y.tracker.answer = undefined
  await y.pass(30)
  expect(y.desk.hello().linearStatus).toEqual({ state: 'connected' })
  expect(y.allRuns()).toHaveLength(1)
})

test('a ticket that is missing from one picture gets no second run when it is back', async () => {
  const y = await yarn()
  const one = ticket('ENG-1')
  y.tracker.put(one)
  await y.settle()
  await y.done(y.desk.cancelRun(y.runOf('ENG-1').id))
  y.tracker.tickets.delete('ENG-1')
  await y.pass(30)
  expect(y.desk.tickets()).toEqual([])
  y.tracker.put(one)
  await y.pass(30)
  expect(y.allRuns()).toHaveLength(1)
})

test('a closed ticket is not eligible', async () => {
  const y = await yarn()
  y.tracker.close(ticket('ENG-1'))
  await y.settle()
  expect([y.desk.tickets(), y.allRuns()]).toEqual([[], []])
})

test('labels, projects and assignees narrow what is eligible', async () => {
  const eligible = { states: ['Todo'], labels: ['agent'], projects: ['Web'], assignees: ['ana'] }
  const y = await yarn(configWith({ tracker: { driver: 'local', path: '/nowhere', eligible } }))
  const fits = { labels: ['x', 'Agent'], project: 'web', assignee: 'Ana' }
  y.tracker.put(
    ticket('fits', fits),
    ticket('label', { ...fits, labels: [] }),
    ticket('project', { ...fits, project: 'ops' }),
    ticket('assignee', { labels: ['agent'], project: 'web' }),
  )
  await y.settle()
  expect(y.allRuns().map((run) => run.ticket.identifier)).toEqual(['fits'])
})

test('a ticket whose id is too long to be remembered is left out, and the others are not', async () => {
  const y = await yarn()
  y.tracker.put(ticket('課'.repeat(250)))
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(y.desk.tickets().map(({ id }) => id)).toEqual(['ENG-1'])
})

test('a tracker that never answers holds nothing up for good: it is asked again', async () => {
  const y = await yarn()
  const { listTickets: look } = y.tracker
  y.tracker.listTickets = () => new Promise(() => {})
  y.tracker.put(ticket('ENG-1'))
  await y.pass(121)
  expect(y.desk.hello().linearStatus.error).toBe('the tracker did not answer within 120 seconds')
  y.tracker.listTickets = look
  await y.pass(60)
  expect(y.desk.tickets().map(({ id }) => id)).toEqual(['ENG-1'])
})
