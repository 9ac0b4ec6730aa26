/**
 * Tests of actors that end by an action, and of actors whose context is split between snapshot and rows.
 */
import { describe, expect, test } from '@jest/globals'
import { type AnyActorRef, assign, setup } from 'xstate'
import { RUN, type RunInput, type RunMachineEvent, runKind } from '../../../actors/runs/run.machine.ts'
import { defineActions, eventTo } from '../../../actors/runtime/actions.ts'
import { type ActorKind, closeOnCrash, kindName } from '../../../actors/runtime/actor-kind.ts'
import { ActorSystem } from '../../../actors/runtime/actor-system.ts'
import { createSnapshotCodec } from '../../../actors/runtime/snapshot-codec.ts'
import type { Effect } from '../../../actors/runtime/transition-output.ts'
import { newRun } from '../../../core/run/run-transitions.ts'
import { DEFAULT_SANDBOX_PROVIDER } from '../../../protocol/config.ts'
import { aTicket, T0 } from '../../rules/run/runs.ts'
import { CrashDatabase } from '../../support/crash-database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'

const COUNTER = kindName<{ n: number }, Event>('guest')

type Event = { type: 'add' } | { type: 'leave' } | { type: 'leave badly' } | { type: 'notify others' }

const { recordEffect, sendEvent, setDeadline, endActor } = defineActions<{ n: number }, Event, Effect>()
let xstateSystem: AnyActorRef['system'] | undefined

const counterMachine = setup({
  types: {} as { context: { n: number }; events: Event },
  actions: {
    add: assign({ n: ({ context }) => context.n + 1 }),
    captureSystem: (args) => {
      xstateSystem = args.system
    },
    recordCount: recordEffect(({ context }) => ({ type: `count.${context.n}` })),
    sendToOthers: sendEvent(({ context }) =>
      Array.from({ length: context.n }, (_, at) => eventTo(COUNTER, `g${at}`, { type: 'add' })),
    ),
    wait: setDeadline(() => ({ name: 'late', at: Date.UTC(2027, 0, 1) })),
    throwError: () => {
      throw new Error('no')
    },
    end: endActor(),
  },
}).createMachine({
  id: 'guest',
  context: { n: 0 },
  initial: 'present',
  entry: ['captureSystem', 'wait'],
  states: {
    present: {
      on: {
        add: { actions: 'add' },
        'notify others': { actions: 'sendToOthers' },
        leave: { target: 'left', actions: 'recordCount' },
        'leave badly': { actions: ['recordCount', 'end', 'throwError'] },
      },
    },
    left: { entry: 'end', on: { add: { actions: ['add', 'recordCount'] } } },
  },
})

const counterKind: ActorKind = {
  name: COUNTER,
  logic: counterMachine,
  codec: createSnapshotCodec({
    version: 1,
    states: { present: 'h', left: 'l' },
    schema: { check: (value) => ({ ok: true, value }), text: 'n:number' },
    lifts: {},
  }),
  supervision: { ...closeOnCrash, restartAfterMs: [1_000], crashesMax: 10 },
}

function createSystem(kinds: readonly ActorKind[] = [counterKind], database = new CrashDatabase()) {
  const clock = new ManualClock()
  const effectLog: string[] = []
  const system = new ActorSystem({
    clock,
    database,
    log: createRecordingLog(),
    meters: noMeters,
    kinds,
    modules: () => ({ runEffect: ({ type }) => void effectLog.push(type) }),
    onFatal: (reason) => void effectLog.push(`fatal: ${reason}`),
  })
  const flush = async () => {
    await clock.settle()
    while (database.inFlight > 0) {
      database.flush()
      await clock.settle()
    }
  }
  return { system, clock, database, effectLog, flush }
}

describe('an actor that ends by an action', () => {
  test('leaves registry, deadlines and disk with that transition, and its effects still run', async () => {
    const { system, database, effectLog, flush } = createSystem()
    system.spawn(COUNTER, 'g', {})
    await flush()
    expect(system.pendingDeadlines()).toBe(1)
    system.send(COUNTER, 'g', { type: 'leave' })
    expect(system.peek(COUNTER, 'g')).toBeUndefined()
    expect(system.send(COUNTER, 'g', { type: 'add' })).toBe(false)
    expect(system.pendingDeadlines()).toBe(0)
    await flush()
    expect(effectLog).toEqual(['count.0'])
    expect(database.snapshotTable.get('guest')?.size).toBe(0)
  })

  test('does not end when the transition throws', async () => {
    const { system, effectLog, flush, database } = createSystem()
    system.spawn(COUNTER, 'g', {})
    system.send(COUNTER, 'g', { type: 'leave badly' })
    await flush()
    expect(effectLog).toEqual([])
    expect(system.peek(COUNTER, 'g')?.value).toBe('present')
    expect(database.snapshotTable.get('guest')?.has('g')).toBe(true)
    // The next transition does not end it either.
    system.spawn(COUNTER, 'h', {})
    expect(system.peek(COUNTER, 'h')?.value).toBe('present')
  })

  test('is never written when it is spawned and ends within one commit', async () => {
    const { system, database, effectLog, flush } = createSystem()
    system.spawn(COUNTER, 'g', {})
    system.send(COUNTER, 'g', { type: 'leave' })
    await flush()
    expect(effectLog).toEqual(['count.0'])
    expect(database.commits).toBe(0)
  })

  test('is erased with the next commit when it ends while its first one is in flight', async () => {
    const { system, clock, database, flush } = createSystem()
    system.spawn(COUNTER, 'g', {})
    await clock.settle()
    system.send(COUNTER, 'g', { type: 'leave' })
    await flush()
    expect(database.commits).toBe(2)
    expect(database.snapshotTable.get('guest')?.size).toBe(0)
  })

  test('leaves nothing in xstate’s registry, ten thousand times', async () => {
    const { system, flush } = createSystem()
    system.spawn(COUNTER, 'first', {})
    if (xstateSystem === undefined) throw new Error('the system was not seen')
    // The registry is private, but registering and unregistering can be observed.
    const own = xstateSystem as unknown as Record<
      '_register' | '_unregister',
      (...args: unknown[]) => unknown
    >
    let inside = 0
    const { _register, _unregister } = own
    own._register = (...args) => {
      inside++
      return _register.apply(own, args)
    }
    own._unregister = (...args) => {
      inside--
      return _unregister.apply(own, args)
    }
    for (let at = 0; at < 10_000; at++) {
      system.spawn(COUNTER, `g${at}`, {})
      if (at === 0) expect(inside).toBe(1)
      system.send(COUNTER, `g${at}`, { type: 'leave' })
    }
    expect(inside).toBe(0)
    expect(system.count().get('guest')).toBe(1)
    expect(system.pendingDeadlines()).toBe(1)
    await flush()
  })
})

test('an action may send to no actor, one, or many, in order and within the tick', () => {
  const { system } = createSystem()
  for (const key of ['g0', 'g1', 'g2']) system.spawn(COUNTER, key, {})
  const counts = () => ['g0', 'g1', 'g2'].map((key) => system.peek(COUNTER, key)?.context.n)
  system.send(COUNTER, 'g0', { type: 'notify others' })
  expect(counts()).toEqual([0, 0, 0])
  for (const key of ['g0', 'g0', 'g0']) system.send(COUNTER, key, { type: 'add' })
  system.send(COUNTER, 'g0', { type: 'notify others' })
  expect(counts()).toEqual([4, 1, 1])
})

describe('an actor whose context is split', () => {
  const input: RunInput = {
    run: newRun('run-1', aTicket, DEFAULT_SANDBOX_PROVIDER, T0),
    job: 'run',
    woken: null,
    earlier: null,
    attempts: 0,
  }

  /** The tables of each commit, in order. */
  const writing = () => {
    const database = new CrashDatabase()
    const written: string[] = []
    const { commit } = database
    database.commit = (writes) => {
      written.push(writes.map(({ table }) => table).join(' '))
      return commit(writes)
    }
    const made = createSystem([runKind], database)
    const sendToRun = (event: RunMachineEvent) => made.system.send(RUN, 'run-1', event)
    return { ...made, sendToRun, written }
  }

  test('writes its rows only when they changed', async () => {
    const { system, sendToRun, written, flush } = writing()
    system.spawn(RUN, 'run-1', input)
    await flush()
    sendToRun({ type: 'granted', leaseId: 'ls-1' })
    await flush()
    sendToRun({ type: 'accepted', leaseId: 'ls-1', workerId: 'wk-1', at: T0 })
    await flush()
    expect(written).toEqual(['snapshot run', 'snapshot', 'snapshot run'])
  })

  test('stores nothing of the rows in its snapshot, and joins both again', async () => {
    const { system, database, flush } = writing()
    system.spawn(RUN, 'run-1', input)
    await flush()
    expect(database.snapshotTable.get('run')?.get('run-1')?.c).not.toHaveProperty('run')
    const again = createSystem([runKind], database)
    expect(again.system.restore()).toMatchObject({ ok: true, value: { restored: 1, damaged: [] } })
    expect(again.system.peek(RUN, 'run-1')?.context).toEqual(system.peek(RUN, 'run-1')?.context)
  })

  test('writes only its rows when it is spawned and ends within one commit', async () => {
    const { system, sendToRun, database, written, flush } = writing()
    system.spawn(RUN, 'run-1', input)
    sendToRun({ type: 'cancel requested', at: T0, reason: 'no' })
    await flush()
    expect(written).toEqual(['run'])
    expect(database.runs.get('run-1')?.status).toBe('cancelled')
  })

  test('loses its snapshot and keeps its rows when it ends', async () => {
    const { system, sendToRun, database, written, flush } = writing()
    system.spawn(RUN, 'run-1', input)
    await flush()
    sendToRun({ type: 'cancel requested', at: T0, reason: 'no' })
    await flush()
    expect(written).toEqual(['snapshot run', 'snapshot run'])
    expect(database.snapshotTable.get('run')?.size).toBe(0)
    expect(database.runs.get('run-1')?.status).toBe('cancelled')
  })

  test('counts as damaged when its row is missing', async () => {
    const { system, database, flush } = writing()
    system.spawn(RUN, 'run-1', input)
    await flush()
    database.runs.clear()
    const again = createSystem([runKind], database)
    expect(again.system.restore()).toMatchObject({
      ok: true,
      value: { restored: 0, damaged: [expect.stringMatching(/^run run-1: .*missing$/)] },
    })
    expect(again.system.isDamaged(RUN, 'run-1')).toBe(true)
    expect(again.system.isDamaged(RUN, 'run-2')).toBe(false)
    expect(database.snapshotTable.get('run')?.size).toBe(1)
  })

  test('lists the keys of live actors', () => {
    const { system } = writing()
    const spawned = ['run-1', 'run-2']
    for (const id of spawned) system.spawn(RUN, id, { ...input, run: { ...input.run, id } })
    expect([...system.keys(RUN)]).toEqual(spawned)
    expect(system.peek(RUN, 'run-2')?.context).toMatchObject({ run: { id: 'run-2' } })
  })
})
