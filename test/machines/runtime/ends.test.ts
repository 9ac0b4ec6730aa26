/**
 * Lives that end by a deed, and lives a part of which is kept elsewhere.
 */
import { describe, expect, test } from '@jest/globals'
import { type AnyActorRef, assign, setup } from 'xstate'
import { type RunEvent, type RunInput, runKind } from '../../../actors/runs/run.machine.ts'
import { deeds } from '../../../actors/runtime/actions.ts'
import { closedAtOnce, type Kind } from '../../../actors/runtime/actor-kind.ts'
import { ActorHost } from '../../../actors/runtime/actor-system.ts'
import { layout } from '../../../actors/runtime/snapshot-codec.ts'
import type { Effect } from '../../../actors/runtime/transition-output.ts'
import { newRun } from '../../../core/run/run-transitions.ts'
import { aTicket, T0 } from '../../rules/run/runs.ts'
import { CrashLedger } from '../../support/crash-database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { keptLog, noMeters } from '../../support/recording-log.ts'

type Event = { type: 'add' } | { type: 'leave' } | { type: 'leave badly' } | { type: 'tell' }

const { queue, tell, setDeadline, end } = deeds<{ n: number }, Event, Effect>()
let system: AnyActorRef['system'] | undefined

const guestMachine = setup({
  types: {} as { context: { n: number }; events: Event },
  actions: {
    add: assign({ n: ({ context }) => context.n + 1 }),
    look: (args) => {
      system = args.system
    },
    say: queue(({ context }) => ({ type: `said.${context.n}` })),
    tellThree: tell(({ context }) =>
      Array.from({ length: context.n }, (_, at) => ({
        to: { kind: 'guest', key: `g${at}` },
        event: { type: 'add' },
      })),
    ),
    wait: setDeadline(() => ({ name: 'late', at: Date.UTC(2027, 0, 1) })),
    throwUp: () => {
      throw new Error('no')
    },
    end: end(),
  },
}).createMachine({
  id: 'guest',
  context: { n: 0 },
  initial: 'here',
  entry: ['look', 'wait'],
  states: {
    here: {
      on: {
        add: { actions: 'add' },
        tell: { actions: 'tellThree' },
        leave: { target: 'left', actions: 'say' },
        'leave badly': { actions: ['say', 'end', 'throwUp'] },
      },
    },
    left: { entry: 'end', on: { add: { actions: ['add', 'say'] } } },
  },
})

const guestKind: Kind = {
  name: 'guest',
  logic: guestMachine,
  layout: layout({
    v: 1,
    states: { here: 'h', left: 'l' },
    shape: { check: (value) => ({ ok: true, value }), text: 'n:number' },
    lifts: {},
  }),
  supervision: { ...closedAtOnce, restartAfterMs: [1_000], crashesMax: 10 },
}

function stage(kinds: readonly Kind[] = [guestKind], ledger = new CrashLedger()) {
  const clock = new ManualClock()
  const told: string[] = []
  const host = new ActorHost({
    clock,
    ledger,
    log: keptLog(),
    meters: noMeters,
    kinds,
    effects: ({ type }) => void told.push(type),
    fatal: (reason) => void told.push(`fatal: ${reason}`),
  })
  const flush = async () => {
    await clock.turn()
    while (ledger.inFlight > 0) {
      ledger.flush()
      await clock.turn()
    }
  }
  return { host, clock, ledger, told, flush }
}

describe('a life that ends by a deed', () => {
  test('leaves registry, deadlines and disk with that transition, whose effects still run', async () => {
    const { host, ledger, told, flush } = stage()
    host.bear('guest', 'g', {})
    await flush()
    expect(host.pendingDeadlines()).toBe(1)
    host.tell('guest', 'g', { type: 'leave' })
    expect(host.peek('guest', 'g')).toBeUndefined()
    expect(host.tell('guest', 'g', { type: 'add' })).toBe(false)
    expect(host.pendingDeadlines()).toBe(0)
    await flush()
    expect(told).toEqual(['said.0'])
    expect(ledger.disk.get('guest')?.size).toBe(0)
  })

  test('does not end when the transition throws after all', async () => {
    const { host, told, flush, ledger } = stage()
    host.bear('guest', 'g', {})
    host.tell('guest', 'g', { type: 'leave badly' })
    await flush()
    expect(told).toEqual([])
    expect(host.peek('guest', 'g')?.value).toBe('here')
    expect(ledger.disk.get('guest')?.has('g')).toBe(true)
    // Nor does the next one, which has nothing to do with it.
    host.bear('guest', 'h', {})
    expect(host.peek('guest', 'h')?.value).toBe('here')
  })

  test('born and over within one cut, it is never written', async () => {
    const { host, ledger, told, flush } = stage()
    host.bear('guest', 'g', {})
    host.tell('guest', 'g', { type: 'leave' })
    await flush()
    expect(told).toEqual(['said.0'])
    expect(ledger.commits).toBe(0)
  })

  test('over while the commit of its birth is in flight, it is taken off the disk with the next', async () => {
    const { host, clock, ledger, flush } = stage()
    host.bear('guest', 'g', {})
    await clock.turn()
    host.tell('guest', 'g', { type: 'leave' })
    await flush()
    expect(ledger.commits).toBe(2)
    expect(ledger.disk.get('guest')?.size).toBe(0)
  })

  test('ten thousand of them leave nothing behind in xstate’s own books', async () => {
    const { host, flush } = stage()
    host.bear('guest', 'first', {})
    if (system === undefined) throw new Error('the system was not seen')
    // The books themselves are private; who enters and who leaves them is not.
    const own = system as unknown as Record<'_register' | '_unregister', (...args: unknown[]) => unknown>
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
      host.bear('guest', `g${at}`, {})
      if (at === 0) expect(inside).toBe(1)
      host.tell('guest', `g${at}`, { type: 'leave' })
    }
    expect(inside).toBe(0)
    expect(host.count().get('guest')).toBe(1)
    expect(host.pendingDeadlines()).toBe(1)
    await flush()
  })
})

test('a deed may tell nobody, one, or many, in order and within the tick', () => {
  const { host } = stage()
  for (const key of ['g0', 'g1', 'g2']) host.bear('guest', key, {})
  const counts = () => ['g0', 'g1', 'g2'].map((key) => host.peek('guest', key)?.context.n)
  host.tell('guest', 'g0', { type: 'tell' })
  expect(counts()).toEqual([0, 0, 0])
  for (const key of ['g0', 'g0', 'g0']) host.tell('guest', key, { type: 'add' })
  host.tell('guest', 'g0', { type: 'tell' })
  expect(counts()).toEqual([4, 1, 1])
})

describe('a life a part of which is kept elsewhere', () => {
  const input: RunInput = {
    run: newRun('run-1', aTicket, T0),
    job: 'run',
    woken: null,
    earlier: null,
    attempts: 0,
  }

  /** The tables of each commit, in order. */
  const writing = () => {
    const ledger = new CrashLedger()
    const written: string[] = []
    const { commit } = ledger
    ledger.commit = (writes) => {
      written.push(writes.map(({ table }) => table).join(' '))
      return commit(writes)
    }
    const made = stage([runKind], ledger)
    const tell = (event: RunEvent) => made.host.tell('run', 'run-1', event)
    return { ...made, tell, written }
  }

  test('writes the other part only when it changed', async () => {
    const { host, tell, written, flush } = writing()
    host.bear('run', 'run-1', input)
    await flush()
    tell({ type: 'granted', leaseId: 'ls-1' })
    await flush()
    tell({ type: 'accepted', leaseId: 'ls-1', workerId: 'wk-1', at: T0 })
    await flush()
    expect(written).toEqual(['life run', 'life', 'life run'])
  })

  test('keeps nothing of the other part in its own record, and finds both again', async () => {
    const { host, ledger, flush } = writing()
    host.bear('run', 'run-1', input)
    await flush()
    expect(ledger.disk.get('run')?.get('run-1')?.c).not.toHaveProperty('run')
    const again = stage([runKind], ledger)
    expect(again.host.restore()).toMatchObject({ ok: true, value: { restored: 1, damaged: [] } })
    expect(again.host.peek('run', 'run-1')?.context).toEqual(host.peek('run', 'run-1')?.context)
  })

  test('born and over within one cut, only the other part is written', async () => {
    const { host, tell, ledger, written, flush } = writing()
    host.bear('run', 'run-1', input)
    tell({ type: 'cancel requested', at: T0, reason: 'no' })
    await flush()
    expect(written).toEqual(['run'])
    expect(ledger.runs.get('run-1')?.status).toBe('cancelled')
  })

  test('over, its own record goes and the other part stays', async () => {
    const { host, tell, ledger, written, flush } = writing()
    host.bear('run', 'run-1', input)
    await flush()
    tell({ type: 'cancel requested', at: T0, reason: 'no' })
    await flush()
    expect(written).toEqual(['life run', 'life run'])
    expect(ledger.disk.get('run')?.size).toBe(0)
    expect(ledger.runs.get('run-1')?.status).toBe('cancelled')
  })

  test('the other part missing is damage, left alone', async () => {
    const { host, ledger, flush } = writing()
    host.bear('run', 'run-1', input)
    await flush()
    ledger.runs.clear()
    const again = stage([runKind], ledger)
    expect(again.host.restore()).toMatchObject({
      ok: true,
      value: { restored: 0, damaged: ['run run-1: the other part of it is missing'] },
    })
    expect(again.host.isDamaged('run', 'run-1')).toBe(true)
    expect(again.host.isDamaged('run', 'run-2')).toBe(false)
    expect(ledger.disk.get('run')?.size).toBe(1)
  })

  test('who is alive, by key', () => {
    const { host } = writing()
    const born = ['run-1', 'run-2']
    for (const id of born) host.bear('run', id, { ...input, run: { ...input.run, id } })
    expect([...host.keys('run')]).toEqual(born)
    expect(host.peek('run', 'run-2')?.context).toMatchObject({ run: { id: 'run-2' } })
  })
})
