/** Stops every stored actor in each of its states: a restart restores it, and it can still reach its end. */

import { describe, expect, test } from '@jest/globals'
import { EXECUTION } from '../../actors/daemon/daemon.names.ts'
import type { ExecutionEvent } from '../../actors/daemon/execution.machine.ts'
import type { LeaseEvent } from '../../actors/leases/lease.machine.ts'
import { LEASE } from '../../actors/leases/lease.names.ts'
import type { RunMachineEvent } from '../../actors/runs/run.machine.ts'
import { RUN } from '../../actors/runs/run.machine.ts'
import { kindName } from '../../actors/runtime/actor-kind.ts'
import type { WorkerEvent } from '../../actors/workers/worker.machine.ts'
import { WORKER } from '../../actors/workers/worker.machine.ts'
import { T1 } from '../rules/run/runs.ts'
import type { ManualClock } from '../support/manual-clock.ts'
import { type ActorPose, createIsolatedSystem, executions, leases, runs, workers } from './durable-model.ts'

/** Stops the system and restores the actor in another one from the disk. */
async function restarted(posed: ActorPose, clock?: ManualClock) {
  const first = createIsolatedSystem(undefined, clock)
  first.pose(posed)
  await first.flush()
  const before = first.system.peek(kindName(posed.kind.name), posed.key)
  expect(before?.value).toBe(posed.state)
  first.system.stop()
  const changes: string[] = []
  const second = createIsolatedSystem(first.database, first.clock, {
    onStateChange: ({ after, restored }) =>
      void changes.push(`${restored ? 'restored' : 'then'} ${after.value}`),
  })
  expect(second.system.restore()).toMatchObject({ ok: true, value: { restored: 1, damaged: [] } })
  return { ...second, before, changes }
}

describe('a lease', () => {
  const completed: LeaseEvent = {
    type: 'completed',
    at: T1,
    outcome: { status: 'completed', costs: [] },
    retentionHours: 24,
  }
  const claims: LeaseEvent = { type: 'worker claimed lease', at: T1 }
  const denies: LeaseEvent = { type: 'worker denied lease', at: T1 }
  const late: LeaseEvent = { type: 'lease expired', at: T1 }
  const timedOut: LeaseEvent = { type: 'cancel timed out', at: T1 }

  /** No worker is connected yet: the lease waits for its worker, and nothing is dispatched twice. */
  const after: Readonly<Record<string, readonly [state: string, done: readonly string[]]>> = {
    offered: ['unconfirmed', ['lease.await worker']],
    unconfirmed: ['unconfirmed', ['lease.await worker']],
    held: ['adrift', ['lease.await worker']],
    adrift: ['adrift', ['lease.await worker']],
    cancelling: ['cancelling', ['lease.send cancel']],
  }

  test.each(leases.map((posed) => [posed.state, posed] as const))('%s', async (state, posed) => {
    const { system, flush, done, changes, database, before } = await restarted(posed)
    await flush()
    const [now, effects] = after[state] ?? []
    expect(system.peek(LEASE, 'ls-1')?.value).toBe(now)
    expect(system.peek(LEASE, 'ls-1')?.context).toEqual(before?.context)
    expect(done).toEqual(effects)
    expect(changes[0]).toBe(`restored ${state}`)

    for (const event of [claims, completed]) system.send(LEASE, 'ls-1', event)
    await flush()
    expect(system.peek(LEASE, 'ls-1')).toBeUndefined()
    expect(done.at(-1)).toBe('lease.acknowledge completion')
    expect(database.snapshotTable.get('lease')?.size).toBe(0)
  })

  test.each(leases.map((posed) => [posed.state, posed] as const))(
    '%s, and its worker returns without it, or not at all',
    async (state, posed) => {
      for (const event of [denies, state === 'cancelling' ? timedOut : late]) {
        const { system, flush, database } = await restarted(posed)
        system.send(LEASE, 'ls-1', event)
        await flush()
        expect(system.peek(LEASE, 'ls-1')).toBeUndefined()
        expect(database.snapshotTable.get('lease')?.size).toBe(0)
      }
    },
  )
})

describe('a run', () => {
  const granted: RunMachineEvent = { type: 'granted', leaseId: 'ls-2' }
  const accepted: RunMachineEvent = { type: 'accepted', leaseId: 'ls-2', workerId: 'wk-1', at: T1 }
  const ended: RunMachineEvent = {
    type: 'ended completed',
    leaseId: 'ls-1',
    workerId: 'wk-1',
    at: T1,
    outcome: { status: 'completed', costs: [] },
    retentionHours: 24,
  }

  test.each(runs.map((posed) => [posed.state, posed] as const))('%s', async (state, posed) => {
    const { system, flush, done, changes, database, before } = await restarted(posed)
    await flush()
    const now = system.peek(RUN, 'run-1')
    expect(now?.value).toBe(state)
    expect(now?.context).toEqual(before?.context)
    expect(now?.context.run).toEqual(database.runs.get('run-1'))
    expect(done).toEqual([])
    expect(changes).toEqual([`restored ${state}`])
    // Nothing changed, so nothing was written.
    expect(database.commits).toBe(1)

    for (const event of state === 'queued' ? [granted, accepted, ended] : [ended])
      system.send(RUN, 'run-1', event)
    await flush()
    expect(system.peek(RUN, 'run-1')).toBeUndefined()
    expect(database.snapshotTable.get('run')?.size).toBe(0)
    expect(database.runs.get('run-1')?.status).toBe('completed')
  })
})

test.each(['held', 'adrift', 'cancelling'])(
  'a restored run that is queued follows its lease, which was %s',
  async (state) => {
    const [queued] = runs
    const lease = leases.find((posed) => posed.state === state)
    if (queued === undefined || lease === undefined) throw new Error('nothing to pose')
    const first = createIsolatedSystem()
    // Create each in a system of its own, so that neither receives events of the other.
    first.pose(queued)
    await first.flush()
    const second = createIsolatedSystem()
    second.pose(lease)
    await second.flush()
    first.database.snapshotTable.set('lease', second.database.snapshotTable.get('lease') ?? new Map())
    first.system.stop()

    const { system, flush } = createIsolatedSystem(first.database)
    expect(system.restore()).toMatchObject({ ok: true, value: { restored: 2 } })
    await flush()
    expect(system.peek(RUN, 'run-1')).toMatchObject({ value: 'preparing', context: { lease: 'ls-1' } })
  },
)

describe('a worker', () => {
  const renamed: WorkerEvent = { type: 'renamed', name: 'hammer' }
  const revoked: WorkerEvent = { type: 'revoked' }

  test.each(workers.map((posed) => [posed.state, posed] as const))('%s', async (state, posed) => {
    const { system, flush, done, database, before } = await restarted(posed)
    await flush()
    expect(system.peek(WORKER, 'wk-1')?.value).toBe(state)
    expect(system.peek(WORKER, 'wk-1')?.context).toEqual(before?.context)
    expect(done).toEqual([])

    system.send(WORKER, 'wk-1', renamed)
    await flush()
    expect(database.snapshotTable.get('worker')?.get('wk-1')?.c).toMatchObject({ name: 'hammer' })
    system.send(WORKER, 'wk-1', revoked)
    await flush()
    expect(system.peek(WORKER, 'wk-1')).toBeUndefined()
    expect(database.snapshotTable.get('worker')?.size).toBe(0)
    expect(system.pendingDeadlines()).toBe(0)
  })
})

describe('an execution', () => {
  const acknowledged: ExecutionEvent = { type: 'completion acknowledged' }
  const salvaged: ExecutionEvent = { type: 'recovered', sandbox: { id: 'sb-2' } }

  /** Nothing of the execution runs any more: its remains are recovered, or it ends. */
  const after: Readonly<Record<string, readonly [state: string | undefined, done: readonly string[]]>> = {
    accepted: ['finished', ['execution.report']],
    preparing: ['recovering', ['execution.recover']],
    working: ['recovering', ['execution.recover']],
    finishing: ['recovering', ['execution.recover']],
    stopping: ['recovering', ['execution.recover']],
    abandoned: ['recovering', ['execution.recover']],
    recovering: ['recovering', ['execution.recover']],
    finished: ['finished', ['execution.report']],
  }

  test.each(executions.map((posed) => [posed.state, posed] as const))('%s', async (state, posed) => {
    const { system, flush, done, changes, database } = await restarted(posed)
    await flush()
    const [now, effects] = after[state] ?? []
    expect(system.peek(EXECUTION, 'ls-1')?.value).toBe(now)
    expect(done).toEqual(effects)
    expect(changes[0]).toBe(`restored ${state}`)

    for (const event of [salvaged, acknowledged]) system.send(EXECUTION, 'ls-1', event)
    await flush()
    expect(system.peek(EXECUTION, 'ls-1')).toBeUndefined()
    expect(database.snapshotTable.get('execution')?.size).toBe(0)
  })
})
