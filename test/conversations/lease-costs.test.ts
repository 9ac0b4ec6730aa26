/** The costs of an execution whose lease ended before its worker could report: they reach the run, and count once. */
import { expect, test } from '@jest/globals'
import type { CostEntry } from '../../protocol/cost.ts'
import type { RunEvent } from '../../protocol/run.ts'
import {
  acceptRun,
  cost,
  enroll,
  type HostConversation,
  type LeasedScriptedWorker,
  offerRun,
  reconnect,
  registerWithCredential,
  startHost,
  Work,
} from './host-conversation.ts'

const spent = ({ id }: Work, ...costs: CostEntry[]) => ({ type: 'lease-costs', leaseId: id, costs }) as const

const costsOf = (host: HostConversation, runId: string): string[] =>
  host.run(runId).costs.map(({ label, costUsd }) => `${label} $${costUsd}`)

async function costEvents(host: HostConversation, runId: string): Promise<string[]> {
  const isCost = (event: RunEvent): event is Extract<RunEvent, { type: 'cost' }> => event.type === 'cost'
  return (await host.readEvents(runId)).filter(isCost).map(({ entry }) => `${entry.label} $${entry.costUsd}`)
}

/** A run whose worker gave its lease up, and which the same worker executes again. */
async function beginAgain(host: HostConversation): Promise<LeasedScriptedWorker & { readonly again: Work }> {
  const leased = await acceptRun(host)
  await leased.connection.send(leased.work.running())
  await leased.connection.sendHeartbeat()
  const again = new Work(leased.connection.lastReceived('dispatch'))
  expect(again.id).not.toBe(leased.work.id)
  await leased.connection.send(again.accept())
  return { ...leased, again }
}

test('an attempt that was handed back is in the costs, in front of the attempt after it', async () => {
  const host = await startHost()
  const { connection, work, again, runId } = await beginAgain(host)
  await connection.send(again.patch({ status: 'running', costs: [cost(2)] }))
  await connection.send(spent(work, cost(1)))
  expect(connection.lastReceived('lease-costs-ack')).toEqual({ type: 'lease-costs-ack', leaseId: work.id })
  expect(costsOf(host, runId)).toEqual(['run $1', 'attempt 2 $2'])
  // The second attempt's own list still replaces only its own part.
  await connection.send(again.complete({ costs: [cost(3)] }))
  expect(costsOf(host, runId)).toEqual(['run $1', 'attempt 2 $3'])
  expect(host.run(runId).costTotals?.costUsd).toBe(4)
  expect(await costEvents(host, runId)).toEqual(['run $1'])
})

test('costs that are reported again, on the same and on another host process, count once', async () => {
  const host = await startHost()
  const { worker, connection, work, again, runId } = await beginAgain(host)
  await connection.send(spent(work, cost(1)), spent(work, cost(1)))
  expect(connection.countReceived('lease-costs-ack')).toBeGreaterThanOrEqual(1)
  await host.crash()
  const later = await reconnect(host, worker, again)
  await later.send(spent(work, cost(1)))
  expect(later.countReceived('lease-costs-ack')).toBe(1)
  expect(costsOf(host, runId)).toEqual(['run $1'])
  expect(await costEvents(host, runId)).toEqual(['run $1'])
})

test.each(['its run waits the term out', 'its run is cancelled'] as const)(
  'the costs of a lease whose record a restart did not find are counted once %s',
  async (end) => {
    const host = await startHost()
    const { worker, connection, work, runId } = await acceptRun(host)
    await connection.send(work.patch({ costs: [cost(1)] }))
    void host.store.database.commit([{ table: 'snapshot', kind: 'lease', key: work.id, record: null }])
    await host.settle()
    await host.crash()
    const back = await reconnect(host, worker)
    await back.send(spent(work, cost(5)))
    expect(back.hasReceived('lease-costs-ack')).toBe(false)
    expect(costsOf(host, runId)).toEqual(['run $1'])
    if (end === 'its run is cancelled') await host.succeeded(host.hostApi.cancelRun(runId))
    else await host.advanceWithHeartbeats(240, [back])
    await host.crash()
    const later = await reconnect(host, worker)
    await later.send(spent(work, cost(5)), spent(work, cost(5)))
    expect(later.hasReceived('lease-costs-ack')).toBe(true)
    expect(costsOf(host, runId)).toEqual(['run $5'])
  },
)

test('costs are acknowledged once they are on disk, however often they are reported', async () => {
  const host = await startHost()
  const { connection, work, runId } = await beginAgain(host)
  host.fillDisk()
  await connection.send(spent(work, cost(1)), spent(work, cost(1)))
  expect(connection.hasReceived('lease-costs-ack')).toBe(false)
  await host.freeDisk()
  expect(connection.hasReceived('lease-costs-ack')).toBe(true)
  expect(costsOf(host, runId)).toEqual(['run $1'])
})

test('costs that arrive in the commit that ends their run are in its record', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await host.succeeded(host.hostApi.cancelRun(runId))
  await connection.send(spent(work, cost(1)))
  expect(host.run(runId).status).toBe('cancelled')
  await host.crash()
  expect(costsOf(host, runId)).toEqual(['run $1'])
})

test('what a lease had reported before its end is replaced and not added', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.patch({ costs: [cost(1)] }))
  await connection.sendHeartbeat()
  await connection.send(spent(work, cost(5)))
  expect(costsOf(host, runId)).toEqual(['run $5'])
})

test('costs that the lease had reported completely before its end make no second event', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const at = '2026-01-01T00:00:00.000Z'
  const event = { type: 'run-event', leaseId: work.id, seq: 1, event: { type: 'cost', at, entry: cost(1) } }
  await connection.send(event, work.at(2).patch({ costs: [cost(1)] }))
  await connection.sendHeartbeat()
  await connection.send(spent(work, cost(1)))
  expect(connection.hasReceived('lease-costs-ack')).toBe(true)
  expect(costsOf(host, runId)).toEqual(['run $1'])
  expect(await costEvents(host, runId)).toEqual(['run $1'])
})

test('a cancelled run whose worker did not answer in time gets its costs later', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.drop()
  await host.succeeded(host.hostApi.cancelRun(runId))
  await host.advance(16)
  expect(host.run(runId).status).toBe('cancelled')
  const back = await reconnect(host, worker)
  await back.send(spent(work, cost(1)))
  expect(back.hasReceived('lease-costs-ack')).toBe(true)
  expect(costsOf(host, runId)).toEqual(['run $1'])
  expect(await costEvents(host, runId)).toEqual(['run $1'])
})

test('a worker that reports the costs of a live lease has given the lease up', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.running(), spent(work, cost(1)))
  expect(connection.hasReceived('lease-costs-ack')).toBe(true)
  const again = new Work(connection.lastReceived('dispatch'))
  expect([again.runId, again.id === work.id]).toEqual([runId, false])
  expect(costsOf(host, runId)).toEqual(['run $1'])
  expect(worker.connection.closed).toBeUndefined()
})

test('the usage of such an execution is archived until its costs are settled', async () => {
  const host = await startHost()
  const { connection, work } = await beginAgain(host)
  const usage = (sessionId: string, more: object) => ({
    type: 'run-usage-snapshot',
    snapshot: { projectKey: 'project', sessionId, entries: [] },
    ...more,
  })
  const read = (sessionId: string) => host.store.usage.read({ projectKey: 'project', sessionId })
  await connection.send(usage('first', { endedLeaseId: work.id }), spent(work, cost(1)))
  await connection.send(usage('late', { endedLeaseId: work.id }), usage('foreign', { endedLeaseId: 'ls-1' }))
  expect(await read('first')).toBeDefined()
  expect(await read('late')).toBeUndefined()
  expect(await read('foreign')).toBeUndefined()
})

/** The usage of the given-up lease has arrived and is being written; so are its costs behind it. */
async function reportWhileUsageIsWritten(host: HostConversation) {
  const replace = host.store.usage.replace.bind(host.store.usage)
  let write = () => {}
  host.store.usage.replace = async (key, text) => {
    await new Promise<void>((resolve) => {
      write = resolve
    })
    await replace(key, text)
  }
  const begun = await beginAgain(host)
  const snapshot = { projectKey: 'project', sessionId: 'first', entries: [] }
  const usage = { type: 'run-usage-snapshot', endedLeaseId: begun.work.id, snapshot }
  await begun.connection.send(usage, spent(begun.work, cost(1)), spent(begun.work, cost(1)))
  const finishWrite = async () => {
    write()
    await host.settle()
  }
  return { ...begun, finishWrite }
}

test('costs are settled once the usage that arrived before them is stored', async () => {
  const host = await startHost()
  const { connection, runId, finishWrite } = await reportWhileUsageIsWritten(host)
  expect([connection.hasReceived('lease-costs-ack'), costsOf(host, runId)]).toEqual([false, []])
  await finishWrite()
  expect([connection.countReceived('lease-costs-ack'), costsOf(host, runId)]).toEqual([1, ['run $1']])
  expect(await host.store.usage.read({ projectKey: 'project', sessionId: 'first' })).toBeDefined()
})

test('costs behind usage that is still being stored count although their worker has gone', async () => {
  const host = await startHost()
  const { connection, runId, finishWrite } = await reportWhileUsageIsWritten(host)
  await connection.drop()
  await finishWrite()
  expect(costsOf(host, runId)).toEqual(['run $1'])
})

test('costs behind usage that is still being stored do not count once their worker is revoked', async () => {
  const host = await startHost()
  const { worker, runId, finishWrite } = await reportWhileUsageIsWritten(host)
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  await finishWrite()
  expect(costsOf(host, runId)).toEqual([])
})

test('a worker cannot report the costs of another worker’s lease, or lower ones of a completed one', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  const second = await enroll(host, 'second')
  await second.connection.send(spent(work, cost(9)))
  expect(costsOf(host, runId)).toEqual([])
  expect(host.run(runId).status).toBe('preparing')
  await connection.send(work.complete({ costs: [cost(2)] }))
  await connection.send(spent(work, cost(1)))
  expect(connection.hasReceived('lease-costs-ack')).toBe(true)
  expect(costsOf(host, runId)).toEqual(['run $2'])
  expect(worker.connection).toBe(connection)
})

test('a worker that was revoked reports nothing more', async () => {
  const host = await startHost()
  const { worker, work, runId } = await acceptRun(host)
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  const back = host.connect('worker')
  await back.send(registerWithCredential(worker), spent(work, cost(1)))
  expect(back.hasReceived('lease-costs-ack')).toBe(false)
  expect(costsOf(host, runId)).toEqual([])
})

test('an execution that the host never heard of counts as the next attempt', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await offerRun(host)
  await connection.drop()
  const back = await reconnect(host, worker)
  await back.send(spent(work, cost(1)))
  expect(costsOf(host, runId)).toEqual(['run $1'])
})

test('the cost events of a run carry the label of their execution', async () => {
  const host = await startHost()
  const { connection, again, runId } = await beginAgain(host)
  const at = '2026-01-01T00:00:00.000Z'
  const event = { type: 'run-event', leaseId: again.id, seq: 1, event: { type: 'cost', at, entry: cost(1) } }
  await connection.send(event)
  expect(await costEvents(host, runId)).toEqual(['attempt 2 $1'])
})

test.each(['reports its costs', 'completes the run'] as const)(
  'the copy of a worker that %s first takes nothing from the costs of the true one',
  async (how) => {
    const host = await startHost()
    const { worker, connection, work, runId } = await acceptRun(host)
    await connection.send(work.patch({ status: 'running', costs: [cost(1)] }))
    const copy = await reconnect(host, worker, work)
    expect(connection.closed).toBeDefined()
    if (how === 'reports its costs') await copy.send(spent(work, cost(1)))
    else
      await copy.send(work.at(2).complete({ status: 'failed', error: 'the worker ended', costs: [cost(1)] }))
    expect(costsOf(host, runId)).toEqual(['run $1'])
    const back = await reconnect(host, worker)
    await back.send(spent(work, cost(5)))
    expect(costsOf(host, runId)).toEqual(['run $5'])
    expect(back.hasReceived('lease-costs-ack')).toBe(true)
    await back.send(spent(work, cost(3)))
    await host.crash()
    expect(costsOf(host, runId)).toEqual(['run $5'])
  },
)
