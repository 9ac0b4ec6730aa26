/** Dashboards come and go at any moment, and each knows the state of the host a moment after it has connected. */
import { expect, test } from '@jest/globals'
import type { AttentionItem } from '../../protocol/attention.ts'
import type { Run } from '../../protocol/run.ts'
import type { WorkerView } from '../../protocol/worker.ts'
import { readPush } from '../support/dashboard-pushes.ts'
import { drawSeed, Random } from '../support/random.ts'
import {
  acceptRun,
  enroll,
  type HostConversation,
  offerRun,
  reconnect,
  startHost,
  ticket,
} from './host-conversation.ts'

/** A dashboard as the socket serves it: it listens, gets the state as it is, and then every change. */
class Visit {
  readonly runs = new Map<string, Run>()
  tickets: readonly string[] = []
  workers: readonly string[] = []
  attention: readonly AttentionItem[] = []
  readonly leave: () => void

  constructor({ hostApi }: HostConversation) {
    this.leave = hostApi.onPush((outgoing) => {
      const push = readPush(outgoing)
      if (push.type === 'run-updated') this.runs.set(push.run.id, push.run)
      else if (push.type === 'tickets') this.tickets = push.tickets.map(({ id }) => id)
      else if (push.type === 'workers') this.workers = push.workers.map(describeWorker)
      else if (push.type === 'attention') this.attention = push.items
    })
    const { runs, tickets, workers } = hostApi.hello()
    for (const run of runs) this.runs.set(run.id, run)
    this.tickets = tickets.map(({ id }) => id)
    this.workers = workers.map(describeWorker)
    this.attention = hostApi.attention().items
  }

  get seen() {
    const { tickets, workers, attention } = this
    const runs = [...this.runs.values()].map(({ ticket, status, agentSessionId }) => [
      ticket.id,
      status,
      agentSessionId,
    ])
    return { runs: runs.sort(), tickets, workers, attention }
  }

  /** Why these runs wait. */
  reasonsOf(ids: readonly string[]) {
    return ids.map((id) => this.runs.get(id)?.queueReason)
  }
}

const describeWorker = ({ state, connection, activeRuns }: WorkerView): string =>
  `${state} ${connection} ${activeRuns}`

function expectUpToDate(visit: Visit, host: HostConversation): void {
  const fresh = new Visit(host)
  fresh.leave()
  expect(visit.seen).toEqual(fresh.seen)
  // A run that a worker was offered waits for nothing, and is pushed again when the worker has answered.
  const waiting = [...fresh.runs.values()].filter(
    ({ status, queueReason }) => status === 'queued' && queueReason !== undefined,
  )
  const ids = waiting.map(({ id }) => id)
  expect(visit.reasonsOf(ids)).toEqual(fresh.reasonsOf(ids))
}

/** Longer than any push waits for others. */
const PUSHES_SENT_MS = 2_000

const seed = drawSeed()
test.each(Array.from({ length: 40 }, (_, at) => seed + at))('visits at any moment, seed %i', async (own) => {
  const random = new Random(own)
  const host = await startHost()
  const { connection, work, worker, runId } = await acceptRun(host)
  let visits: Visit[] = []
  let n = 2
  let isFull = false
  let isOver = false
  const steps: Readonly<Record<string, () => unknown>> = {
    come: () => visits.push(new Visit(host)),
    leave: () => {
      for (const visit of visits) visit.leave()
      visits = []
    },
    ticket: () => host.tracker.put(ticket(`ENG-${n++}`)),
    session: () => !isOver && connection.send(work.patch({ agentSessionId: `s-${n++}` })),
    drain: () => !isFull && host.succeeded(host.hostApi.drainWorker(worker.workerId)),
    enable: () => !isFull && host.succeeded(host.hostApi.enableWorker(worker.workerId)),
    fill: () => {
      isFull = true
      host.fillDisk()
    },
    free: () => {
      isFull = false
      return host.freeDisk()
    },
    wait: () => host.clock.advance(random.below(300)),
    retry: () => {
      if (!isFull && isOver) void host.hostApi.retryRun(runId)
      return host.settle()
    },
    fail: () => {
      if (isOver) return undefined
      isOver = true
      return connection.send(work.complete({ status: 'failed', error: 'no' }))
    },
  }
  const weighted = [
    'come',
    'come',
    'leave',
    'session',
    'session',
    'wait',
    'wait',
    'retry',
    ...Object.keys(steps),
  ]
  await host.withoutTranscript(async () => {
    for (let at = 0; at < 60; at++) {
      // Nobody may be disconnected for its silence meanwhile.
      await connection.sendHeartbeat(...(isOver ? [] : [work]))
      await steps[random.pick(weighted)]?.()
    }
    if (isFull) await host.freeDisk()
    visits.push(new Visit(host))
    await host.clock.advance(PUSHES_SENT_MS)
    for (const visit of visits) expectUpToDate(visit, host)
  })
})

test('a state that was to be pushed later does not reach the dashboard that comes next', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await host.clock.advance(500)
  const first = new Visit(host)
  await connection.send(work.patch({ agentSessionId: 'one' }))
  await connection.send(work.patch({ agentSessionId: 'two' }))
  first.leave()
  await connection.send(work.patch({ agentSessionId: 'three' }))
  const second = new Visit(host)
  await host.clock.advance(PUSHES_SENT_MS)
  expect([...second.runs.values()].map(({ agentSessionId }) => agentSessionId)).toEqual(['three'])
})

test('a change that is written while a dashboard connects is pushed to it', async () => {
  const host = await startHost()
  const { connection, work } = await offerRun(host)
  host.fillDisk()
  await connection.send(work.accept(), work.running())
  const visit = new Visit(host)
  expect([...visit.runs.values()].map(({ status }) => status)).not.toContain('running')
  await host.freeDisk()
  await host.clock.advance(PUSHES_SENT_MS)
  expectUpToDate(visit, host)
  expect([...visit.runs.values()].map(({ status }) => status)).toEqual(['running'])
})

test('what needs a person no longer, before the others heard of it, is pushed to the dashboard that came meanwhile', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const first = new Visit(host)
  await host.clock.advance(PUSHES_SENT_MS)
  await connection.send(work.complete({ status: 'failed', error: 'the tests fail' }))
  const second = new Visit(host)
  expect(second.attention).toMatchObject([{ kind: 'failed' }])
  await host.succeeded(host.hostApi.retryRun(runId))
  await host.clock.advance(PUSHES_SENT_MS)
  expect([first.attention, second.attention]).toEqual([[], []])
})

test('what needed a person while nobody watched, and no longer does, is pushed', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  new Visit(host).leave()
  await connection.send(work.complete({ status: 'failed', error: 'the tests fail' }))
  const visit = new Visit(host)
  expect(visit.attention).toMatchObject([{ kind: 'failed', runId }])
  await host.succeeded(host.hostApi.retryRun(runId))
  await host.clock.advance(PUSHES_SENT_MS)
  expect(visit.attention).toEqual([])
})

test('a dashboard hears of the end of a usage limit that began while nobody watched', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  const at = new Date(host.clock.now()).toISOString()
  const resetsAt = new Date(host.clock.now() + 10_000).toISOString()
  const { event: _, ...frame } = work.event()
  await connection.send({
    ...frame,
    event: { type: 'limit', at, provider: 'agentB', message: 'wait', resetsAt },
  })
  await connection.send(work.complete({ status: 'failed', error: 'the limit is reached', failure: 'limit' }))
  await host.clock.advance(PUSHES_SENT_MS)
  const visit = new Visit(host)
  expect(visit.attention).toMatchObject([{ kind: 'limit' }])
  await host.clock.advance(10_000)
  expect(visit.attention).toMatchObject([{ kind: 'failed' }])
})

test('the reason for which runs wait is pushed although it is the one that was pushed last', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await host.succeeded(host.hostApi.drainWorker(worker.workerId))
  const first = new Visit(host)
  host.tracker.put(ticket('ENG-1'))
  await host.clock.advance(PUSHES_SENT_MS)
  first.leave()
  await worker.connection.drop()
  await host.clock.advance(PUSHES_SENT_MS)
  const second = new Visit(host)
  const [whileAway] = second.reasonsOf([...second.runs.keys()])
  await reconnect(host, worker)
  await host.clock.advance(PUSHES_SENT_MS)
  expectUpToDate(second, host)
  expect(second.reasonsOf([...second.runs.keys()])).not.toEqual([whileAway])
})
