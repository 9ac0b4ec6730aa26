/** The eligible tickets over a real socket: searched, filtered, sorted and paged by the host, with their runs beside them. */
import { expect, test } from '@jest/globals'
import { fetch } from 'undici'
import type { Run, Ticket } from '../../../protocol/run.ts'
import { compareTickets } from '../../../protocol/ticket-order.ts'
import { startTurnMeter } from '../../support/cpu-time.ts'
import { fakeRun, fakeTicket } from '../../support/fake-host-api.ts'
import { openTestServer, type TestServer, TOKEN } from '../../support/test-resources.ts'

const instant = (minute: number): string => new Date(Date.UTC(2026, 10, 20) + minute * 60_000).toISOString()

/** Every second ticket is of `api`, every third has the label `bug`, and priorities go round. */
function addTickets({ hostApi }: TestServer, count: number): void {
  const tickets = Array.from({ length: count }, (_, at): Ticket => {
    const number = at + 1
    return {
      ...fakeTicket(`ENG-${number}`),
      title: `Toast number ${number}`,
      state: number % 4 === 0 ? 'Ready' : 'Todo',
      priority: ([0, 1, 2, 3, 4] as const)[number % 5] ?? 0,
      labels: number % 3 === 0 ? ['bug', 'agent'] : ['agent'],
      createdAt: instant(number),
      updatedAt: instant(-number),
      ...(number % 2 === 0 ? { repo: 'api' } : {}),
    }
  }).sort(compareTickets)
  hostApi.tickets = () => tickets
}

function addRun(
  { hostApi }: TestServer,
  id: string,
  status: Run['status'],
  number: number,
  more: Partial<Run> = {},
) {
  hostApi.runsById.set(id, { ...fakeRun(id, status, `ENG-${number}`), ...more })
}

async function ask<T>({ url }: TestServer, path: string) {
  const reply = await fetch(`${url}/api/tickets${path}`, { headers: { authorization: `Bearer ${TOKEN}` } })
  // The route answers with what its schema says; tests compare the fields.
  return { reply, body: (await reply.json()) as T }
}

const numbersOf = (tickets: readonly Ticket[]): number[] =>
  tickets.map(({ id }) => Number(id.slice('t-ENG-'.length)))

test('without parameters every eligible ticket comes, in the order of the queue', async () => {
  const server = await openTestServer()
  addTickets(server, 1_200)
  const { reply, body } = await ask<Ticket[]>(server, '')
  expect([body, reply.headers.get('link')]).toEqual([server.hostApi.tickets(), null])
})

test.each([
  ['limit=3', [1, 6, 11]],
  ['limit=2&skip=1', [6, 11]],
  ['repo=api&limit=3', [6, 16, 26]],
  ['label=bug&priority=2', [12, 27]],
  ['state=Ready&priority=0', [20]],
  ['q=toast+number+30', [30]],
  ['q=NUMBER+eng-7', [7]],
  ['q=t-eng-29', [29]],
  ['q=nothing', []],
  ['sort=newest&limit=3', [30, 29, 28]],
  ['sort=oldest&limit=2&skip=2', [3, 4]],
  ['sort=changed&limit=2', [1, 2]],
  ['run=progress', [6]],
  ['run=waits', [2]],
  ['run=blocked', [4]],
  ['run=none&sort=oldest&limit=4', [1, 3, 5, 7]],
])('the host finds what is asked: %s', async (query, expected) => {
  const server = await openTestServer()
  addTickets(server, 30)
  addRun(server, 'run-1', 'queued', 2, { queueReason: 'fleet at capacity' })
  addRun(server, 'run-2', 'queued', 4, { queueReason: 'waiting for ENG-2' })
  addRun(server, 'run-3', 'running', 6)
  addRun(server, 'run-4', 'failed', 7)
  expect(numbersOf((await ask<Ticket[]>(server, `?${query}`)).body)).toEqual(expected)
})

test('pages lead on to every ticket once, and their runs come from the same query', async () => {
  const server = await openTestServer()
  addTickets(server, 300)
  for (let number = 1; number <= 300; number++) addRun(server, `run-${number}`, 'failed', number)
  const read = async (path: string) => {
    const pages: object[][] = []
    for (let next: string | undefined = `${path}?repo=api&sort=newest&limit=40`; next !== undefined; ) {
      const page: Awaited<ReturnType<typeof ask<object[]>>> = await ask<object[]>(server, next)
      pages.push(page.body)
      next = /<\/api\/tickets([^>]+)>; rel="next"/.exec(page.reply.headers.get('link') ?? '')?.[1]
    }
    return pages
  }
  const [tickets, runs] = [await read(''), await read('/runs')]
  expect(tickets.map(({ length }) => length)).toEqual([40, 40, 40, 30])
  expect(new Set(tickets.flat().map((ticket) => Reflect.get(ticket, 'id'))).size).toBe(150)
  expect(runs.map((page) => page.map((run) => Reflect.get(run, 'ticketId')))).toEqual(
    tickets.map((page) => page.map((ticket) => Reflect.get(ticket, 'id'))),
  )
})

test('the run of a ticket is the unfinished one, else the newest, and says when it changed nothing', async () => {
  const server = await openTestServer()
  addTickets(server, 4)
  addRun(server, 'run-1', 'queued', 1)
  addRun(server, 'run-2', 'failed', 1)
  addRun(server, 'run-3', 'failed', 2)
  addRun(server, 'run-4', 'completed', 2, { result: { artifacts: [] } })
  addRun(server, 'run-5', 'completed', 3, { result: { artifacts: [], branch: 'sy/eng-3' } })
  const { body } = await ask<object[]>(server, '/runs?sort=oldest')
  expect(body).toEqual([
    { ticketId: 't-ENG-1', runId: 'run-1', status: 'queued' },
    { ticketId: 't-ENG-2', runId: 'run-4', status: 'completed', unchanged: true },
    { ticketId: 't-ENG-3', runId: 'run-5', status: 'completed' },
  ])
})

test('a summary counts what a query finds, and names what all tickets differ in', async () => {
  const server = await openTestServer()
  addTickets(server, 30)
  addRun(server, 'run-1', 'queued', 2)
  addRun(server, 'run-2', 'running', 6)
  addRun(server, 'run-3', 'running', 7)
  expect((await ask(server, '/summary?repo=api&run=waits')).body).toEqual({
    count: 1,
    total: 30,
    runs: { progress: 1, waits: 1, blocked: 0, none: 13 },
    states: ['Ready', 'Todo'],
    labels: ['agent', 'bug'],
    repos: ['api'],
    priorities: [0, 1, 2, 3, 4],
  })
})

test('words that are no filter are refused', async () => {
  const server = await openTestServer()
  const statuses = await Promise.all(
    ['?run=odd', '?priority=5', '?limit=0', '?tracker=x', '/summary?limit=2', '/runs?sort=cost'].map(
      async (path) => (await ask(server, path)).reply.status,
    ),
  )
  expect(statuses).toEqual([400, 400, 400, 400, 400, 400])
})

test('questions about 10,000 tickets do not block the event loop', async () => {
  const server = await openTestServer()
  addTickets(server, 10_000)
  server.hostApi.activeTicketRun = () => fakeRun('run-1')
  const stopMeter = startTurnMeter()
  const replies = await Promise.all(
    ['/summary', '?run=waits&limit=50', '?q=toast+99&sort=newest&limit=50'].map((path) => ask(server, path)),
  )
  expect(stopMeter()).toBeLessThan(200)
  expect(replies.map(({ reply }) => reply.status)).toEqual([200, 200, 200])
})

test('tickets come without their descriptions when these are omitted', async () => {
  const server = await openTestServer()
  addTickets(server, 3)
  const described = server.hostApi.tickets().map((ticket) => ({ ...ticket, description: 'A long text.' }))
  server.hostApi.tickets = () => described
  const { body, reply } = await ask<Ticket[]>(server, '?limit=2&omit=description')
  expect(body).toEqual(described.slice(0, 2).map((ticket) => ({ ...ticket, description: '' })))
  expect(reply.headers.get('link')).toContain('omit=description')
})
