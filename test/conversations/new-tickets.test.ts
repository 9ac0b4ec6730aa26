/** Tickets that a person has the host create: each is queued exactly once, whatever polls and crashes do meanwhile. */
import { expect, test } from '@jest/globals'
import { no, type Result } from '../../core/result.ts'
import type { NewTicketResponse } from '../../protocol/new-ticket.ts'
import { config, configWith, enroll, HostConversation, startHost } from './host-conversation.ts'

const repos = { main: { remote: 'owner/name' }, second: { remote: 'owner/second', label: 'second' } }

function gate(): { readonly gate: Promise<void>; readonly open: () => void } {
  let open = () => {}
  const promise = new Promise<void>((resolve) => {
    open = resolve
  })
  return { gate: promise, open }
}

const runsOf = (host: HostConversation, identifier: string) =>
  host.allRuns().filter(({ ticket }) => ticket.identifier === identifier)

async function created(host: HostConversation, asked: Promise<Result<NewTicketResponse>>) {
  const answer = await host.succeeded(asked)
  await host.settle()
  return answer
}

test('a created ticket is queued at once, and goes to a worker', async () => {
  const host = await startHost(configWith({ repos }))
  const { connection } = await enroll(host, 'worker', 1)
  const request = { title: ' Mend the lamp ', description: 'It is dark.', repo: 'second', labels: ['bug'] }
  const { ticket, run } = await created(host, host.hostApi.createTicket(request))
  expect(ticket).toMatchObject({ title: 'Mend the lamp', state: 'Todo', labels: ['bug'] })
  expect(run).toMatchObject({ status: 'queued', ticket: { id: ticket.id } })
  expect(connection.lastReceived('dispatch').job).toMatchObject({
    run: { id: run?.id },
    repo: { key: 'second' },
  })
  host.tracker.announceChange()
  await host.settle()
  expect(runsOf(host, ticket.identifier)).toHaveLength(1)
})

test('a ticket that is to wait is not queued, and can be started later', async () => {
  const host = await startHost(config)
  const request = { title: 'Mend the lamp', start: false }
  const { ticket, run } = await created(host, host.hostApi.createTicket(request))
  expect([ticket.state, run]).toEqual(['Backlog', undefined])
  expect(host.hostApi.tickets()).toEqual([])
  expect(await host.succeeded(host.hostApi.runTicket(ticket.identifier))).toMatchObject({ status: 'queued' })
})

test('a poll that sees the ticket before its creation is answered queues the one run', async () => {
  const host = await startHost(config)
  const { gate: answerGate, open } = gate()
  host.tracker.answerGate = answerGate
  const asked = host.hostApi.createTicket({ title: 'Mend the lamp' })
  await host.settle()
  host.tracker.announceChange()
  await host.settle()
  const queued = runsOf(host, 'ENG-101')
  expect(queued).toHaveLength(1)
  open()
  expect((await created(host, asked)).run?.id).toBe(queued[0]?.id)
  expect(runsOf(host, 'ENG-101')).toHaveLength(1)
})

test('a poll that was under way and lacks the ticket loses nothing', async () => {
  const host = await startHost(config)
  const { gate: listingGate, open } = gate()
  host.tracker.listingGate = listingGate
  host.tracker.announceChange()
  await host.settle()
  const { ticket } = await created(host, host.hostApi.createTicket({ title: 'Mend the lamp' }))
  open()
  await host.settle()
  expect(host.hostApi.tickets()).toMatchObject([{ id: ticket.id }])
  expect(runsOf(host, ticket.identifier)).toHaveLength(1)
})

test('a host that dies between the creation and the queue takes the ticket up by its first poll', async () => {
  const host = await startHost(config)
  const { gate: answerGate } = gate()
  host.tracker.answerGate = answerGate
  void host.hostApi.createTicket({ title: 'Mend the lamp' })
  await host.settle()
  expect(runsOf(host, 'ENG-101')).toHaveLength(0)
  await host.restart()
  await host.settle()
  expect(runsOf(host, 'ENG-101')).toHaveLength(1)
  await host.restart()
  await host.settle()
  expect(runsOf(host, 'ENG-101')).toHaveLength(1)
})

test('a run that ended before the creation was answered is not repeated', async () => {
  const host = await startHost(config)
  const worker = await enroll(host, 'worker', 1)
  const { gate: answerGate, open } = gate()
  host.tracker.answerGate = answerGate
  const asked = host.hostApi.createTicket({ title: 'Mend the lamp' })
  await host.settle()
  host.tracker.announceChange()
  await host.settle()
  await host.succeeded(host.hostApi.cancelRun(host.runOf('ENG-101').id))
  await host.advanceWithHeartbeats(30, [worker.connection])
  expect(host.runOf('ENG-101').status).toBe('cancelled')
  open()
  await created(host, asked)
  expect(runsOf(host, 'ENG-101')).toHaveLength(1)
})

test('refusals: an unknown repository is 400, and what the tracker cannot do is 409', async () => {
  const host = await startHost(configWith({ repos }))
  const asked = (request: { title: string; repo?: string }) =>
    host.settled(host.hostApi.createTicket(request))
  expect(await asked({ title: 'x', repo: 'third' })).toMatchObject({
    refusal: { kind: 'invalid', message: expect.stringMatching(/^\/repo: third .*main, second$/) },
  })
  for (const [refusal, kind] of [
    [no('invalid', '/labels: there is no such label'), 'invalid'],
    [no('forbidden', 'the token may not write issues'), 'conflict'],
    [no('unavailable', 'GitHub is down'), 'conflict'],
    [no('unknown', 'no such repository'), 'conflict'],
  ] as const) {
    host.tracker.createTicket = async () => refusal
    expect(await asked({ title: 'x' })).toEqual({
      ok: false,
      refusal: { kind, message: refusal.refusal.message },
    })
  }
  Object.assign(host.tracker, { createTicket: undefined })
  expect(await asked({ title: 'x' })).toMatchObject({ refusal: { kind: 'conflict' } })
})

test('without a tracker nothing can be created', async () => {
  const host = new HostConversation(config)
  host.overrides = { tracker: () => undefined }
  await host.start()
  expect(await host.settled(host.hostApi.createTicket({ title: 'x' }))).toMatchObject({
    refusal: { kind: 'conflict' },
  })
})
