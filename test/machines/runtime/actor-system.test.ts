import { describe, expect, test } from '@jest/globals'
import { type AnyEventObject, type MachineContext, setup } from 'xstate'
import { defineActions, eventTo } from '../../../actors/runtime/actions.ts'
import type { ActorKind, Supervision } from '../../../actors/runtime/actor-kind.ts'
import { ActorSystem } from '../../../actors/runtime/actor-system.ts'
import { BUG_MESSAGES } from '../../../actors/runtime/commit-loop.ts'
import { createSnapshotCodec } from '../../../actors/runtime/snapshot-codec.ts'
import type { Effect } from '../../../actors/runtime/transition-output.ts'
import type { ActorSnapshot } from '../../../core/ports/store.ts'
import {
  TALLY,
  type TallyEffect,
  type TallyEvent,
  tallyKind,
  tallyMachine,
} from '../../support/counter-actor.ts'
import { CrashDatabase } from '../../support/crash-database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'

function createSystem(
  kind: ActorKind = tallyKind(),
  database = new CrashDatabase(),
  clock = new ManualClock(),
) {
  const effectLog: string[] = []
  const fatal: string[] = []
  const log = createRecordingLog()
  const system = new ActorSystem({
    clock,
    database,
    log,
    meters: noMeters,
    kinds: [kind],
    modules: () => ({
      runEffect(effect) {
        const { type, name, n } = effect as TallyEffect & { n?: number }
        effectLog.push(type === 'tally.counted' ? `${name}=${n}` : `${type} ${name}`)
        if (name === 'bad effect') throw new Error('no')
      },
    }),
    onFatal: (reason) => fatal.push(reason),
  })
  const send = (key: string, event: TallyEvent) => system.send(TALLY, key, event)
  const spawn = (key: string) => system.spawn(TALLY, key, { name: key })
  const flush = async () => {
    await clock.settle()
    while (database.inFlight > 0) {
      database.flush()
      await clock.settle()
    }
  }
  return { system, effectLog, fatal, log, send, spawn, flush, database, clock }
}

describe('the commit loop', () => {
  test('an effect runs only after its cause is on disk', async () => {
    const { effectLog, send, spawn, database, clock } = createSystem()
    spawn('a')
    send('a', { type: 'add' })
    await clock.settle()
    expect(effectLog).toEqual([])
    database.flush()
    await clock.settle()
    expect(effectLog).toEqual(['a=0', 'a=1'])
  })

  test('events of one tick share one commit; events during a commit share the next', async () => {
    const { send, spawn, database, clock, flush } = createSystem()
    for (const key of ['a', 'b', 'c']) spawn(key)
    await clock.settle()
    expect(database.commits).toBe(1)
    for (const key of ['a', 'b', 'c']) send(key, { type: 'add' })
    await clock.settle()
    expect(database.commits).toBe(1)
    await flush()
    expect(database.commits).toBe(2)
  })

  test('the durable state of an actor follows its current state after the flush', async () => {
    const { system, send, spawn, flush } = createSystem()
    spawn('a')
    await flush()
    send('a', { type: 'add' })
    expect(system.peek(TALLY, 'a')?.context).toMatchObject({ n: 1 })
    expect(system.peekDurable(TALLY, 'a')?.context).toMatchObject({ n: 0 })
    await flush()
    expect(system.peekDurable(TALLY, 'a')?.context).toMatchObject({ n: 1 })
  })

  test('an effect that throws is logged, and the others still run', async () => {
    const { effectLog, spawn, flush, log } = createSystem()
    spawn('bad effect')
    spawn('b')
    await flush()
    expect(effectLog).toEqual(['bad effect=0', 'b=0'])
    expect(log.lines.map((line) => line.message)).toContain('an effect failed')
  })

  test('after a store failure no effect of the commit in flight runs, and the failure is fatal', async () => {
    const { effectLog, spawn, database, clock, fatal } = createSystem()
    spawn('a')
    await clock.settle()
    database.break('EIO')
    await clock.settle()
    expect(effectLog).toEqual([])
    expect(fatal).toEqual(['the store is broken: EIO'])
  })

  test('an actor that ends leaves no snapshot', async () => {
    const { system, effectLog, send, spawn, flush, database } = createSystem()
    spawn('a')
    await flush()
    send('a', { type: 'end' })
    expect(system.send(TALLY, 'a', { type: 'add' })).toBe(false)
    await flush()
    expect(effectLog).toEqual(['a=0', 'tally.ended a'])
    expect(database.snapshotTable.get('tally')?.size).toBe(0)
  })

  test('a key may be used again within the same tick', async () => {
    const { send, spawn, flush, database } = createSystem()
    spawn('a')
    send('a', { type: 'end' })
    spawn('a')
    send('a', { type: 'add' })
    await flush()
    expect(database.snapshotTable.get('tally')?.get('a')?.c).toEqual({ name: 'a', n: 1 })
  })

  test('`settled` resolves when everything is committed and all effects have run', async () => {
    const { system, effectLog, spawn, database, clock } = createSystem()
    spawn('a')
    let settled = false
    const waiting = system.settled().then(() => {
      settled = true
    })
    await clock.settle()
    expect(settled).toBe(false)
    database.flush()
    await clock.settle()
    await waiting
    expect(effectLog).toEqual(['a=0'])
  })
})

describe('messages and spawns', () => {
  test('a message is delivered within the tick, after the transition that sent it', async () => {
    const { system, send, spawn } = createSystem()
    spawn('a')
    spawn('b')
    send('a', { type: 'pass', to: 'b' })
    expect(system.peek(TALLY, 'b')?.context).toMatchObject({ n: 1 })
  })

  test('an actor spawns another', async () => {
    const { system, send, spawn } = createSystem()
    spawn('a')
    send('a', { type: 'spawn', name: 'child' })
    expect(system.peek(TALLY, 'child')?.value).toBe('awake')
  })

  test('a second actor of the same key is refused', () => {
    const { spawn } = createSystem()
    spawn('a')
    expect(spawn('a')).toMatchObject({ ok: false, refusal: { kind: 'conflict' } })
  })

  test('a message to an unknown actor is no error', () => {
    const { send, spawn } = createSystem()
    spawn('a')
    expect(send('a', { type: 'pass', to: 'nobody' })).toBe(true)
    expect(send('nobody', { type: 'add' })).toBe(false)
  })
})

describe('supervision', () => {
  test('a transition that throws leaves no state, effect, message or deadline', async () => {
    const { system, effectLog, send, spawn, flush, clock } = createSystem()
    spawn('a')
    spawn('b')
    send('a', { type: 'boom' })
    await flush()
    expect(system.peek(TALLY, 'a')?.context).toMatchObject({ n: 0 })
    expect(effectLog).toEqual(['a=0', 'b=0'])
    expect(system.pendingDeadlines()).toBe(0)
    await clock.advance(0)
  })

  test('a crash of one actor does not affect others', async () => {
    const { system, send, spawn } = createSystem()
    spawn('a')
    spawn('b')
    send('a', { type: 'boom' })
    send('b', { type: 'add' })
    expect(system.peek(TALLY, 'b')?.context).toMatchObject({ n: 1 })
  })

  test('changes before a crash are still committed', async () => {
    const { effectLog, send, spawn, flush, database } = createSystem()
    spawn('a')
    send('a', { type: 'add' })
    send('a', { type: 'boom' })
    await flush()
    expect(effectLog).toEqual(['a=0', 'a=1'])
    expect(database.snapshotTable.get('tally')?.get('a')?.c).toEqual({ name: 'a', n: 1 })
  })

  test('a crashed actor restarts after a pause and receives the events that arrived meanwhile', async () => {
    const { system, send, spawn, clock } = createSystem(tallyKind({ crashesMax: 10 }))
    spawn('a')
    send('a', { type: 'boom' })
    send('a', { type: 'add' })
    send('a', { type: 'add' })
    expect(system.peek(TALLY, 'a')?.context).toMatchObject({ n: 0 })
    // After 1 s the same event throws again and is skipped; after 2 s more the actor stays alive.
    await clock.advance(1_000)
    expect(system.peek(TALLY, 'a')?.context).toMatchObject({ n: 0 })
    await clock.advance(2_000)
    expect(system.peek(TALLY, 'a')?.context).toMatchObject({ n: 2 })
  })

  test('an event that crashes its actor twice is logged and skipped', async () => {
    const { send, spawn, clock, log } = createSystem(tallyKind({ crashesMax: 10 }))
    spawn('a')
    send('a', { type: 'boom' })
    await clock.advance(10_000)
    expect(log.lines.filter((line) => line.message.includes('skipped'))).toHaveLength(1)
  })

  test('too many crashes in the window: the actor is given up and erased, and its final outputs are sent', async () => {
    const { system, effectLog, send, spawn, flush, database, clock } = createSystem(
      tallyKind({
        finalOutputs: (key) => [
          { is: 'effect', effect: { type: 'tally.ended', name: key } as TallyEffect },
          { is: 'event', to: { kind: 'tally', key: 'b' }, event: { type: 'add' } },
        ],
      }),
    )
    spawn('a')
    spawn('b')
    await flush()
    for (let i = 0; i < 3; i++) {
      send('a', { type: 'boom' })
      await clock.advance(5_000)
    }
    await flush()
    expect(system.peek(TALLY, 'a')).toBeUndefined()
    expect(database.snapshotTable.get('tally')?.has('a')).toBe(false)
    expect(system.peek(TALLY, 'b')?.context).toMatchObject({ n: 1 })
    expect(effectLog).toContain('tally.ended a')
  })

  test('an actor given up as `kept` keeps its snapshot for the next start', async () => {
    const { system, send, spawn, flush, database } = createSystem(
      tallyKind({ restartAfterMs: [], finally: 'kept' }),
    )
    spawn('a')
    await flush()
    send('a', { type: 'boom' })
    await flush()
    expect(system.peek(TALLY, 'a')).toBeUndefined()
    expect(database.snapshotTable.get('tally')?.has('a')).toBe(true)
  })

  test('no actor is spawned over the snapshot of one given up as `kept`, which counts as damaged', async () => {
    const { system, send, spawn, flush, database } = createSystem(
      tallyKind({ restartAfterMs: [], finally: 'kept' }),
    )
    spawn('a')
    await flush()
    const kept = database.snapshotTable.get('tally')?.get('a')
    send('a', { type: 'boom' })
    expect(system.isDamaged(TALLY, 'a')).toBe(true)
    expect(system.spawn(TALLY, 'a', { name: 'a' })).toMatchObject({ ok: false })
    await flush()
    expect(database.snapshotTable.get('tally')?.get('a')).toEqual(kept)
  })

  test('crashes outside the window do not count', async () => {
    const { system, send, spawn, clock } = createSystem(
      tallyKind({ withinMs: 1_000, restartAfterMs: [2_000] }),
    )
    spawn('a')
    for (let i = 0; i < 10; i++) {
      send('a', { type: 'boom' })
      await clock.advance(10_000)
    }
    expect(system.peek(TALLY, 'a')).toBeDefined()
  })

  test('a crash of a `fatal` kind stops the process', () => {
    const { send, spawn, fatal } = createSystem(tallyKind({ restartAfterMs: [], finally: 'fatal' }))
    spawn('a')
    send('a', { type: 'boom' })
    expect(fatal).toEqual(['tally a: crashed 1 times'])
  })

  test('actors that answer each other without end are a fatal error', () => {
    const { sendEvent: send } = defineActions<MachineContext, AnyEventObject, Effect>()
    const echo = setup({
      actions: { pingBack: send(() => eventTo(TALLY, 'a', { type: 'add' })) },
    }).createMachine({ context: {}, on: { add: { actions: 'pingBack' } } })
    const { system, fatal } = createSystem({ ...tallyKind(), logic: echo })
    system.spawn(TALLY, 'a', { name: 'a' })
    system.send(TALLY, 'a', { type: 'add' })
    expect(fatal).toEqual([expect.stringContaining('answer each other')])
    system.stop()
  })
})

describe('deadlines and restarts', () => {
  test('a deadline reaches its actor and survives a restart', async () => {
    const first = createSystem()
    first.spawn('a')
    first.send('a', { type: 'wait', until: first.clock.now() + 5_000 })
    await first.flush()
    first.system.stop()

    const second = createSystem(tallyKind(), first.database, first.clock)
    expect(second.system.restore()).toMatchObject({ ok: true, value: { restored: 1 } })
    expect(second.system.peek(TALLY, 'a')?.value).toBe('napping')
    await second.clock.advance(5_000)
    expect(second.system.peek(TALLY, 'a')?.value).toBe('awake')
  })

  test('a deadline that came due while the process was down fires right after the start', async () => {
    const first = createSystem()
    first.spawn('a')
    first.send('a', { type: 'wait', until: first.clock.now() + 5_000 })
    await first.flush()
    first.system.stop()
    await first.clock.advance(60_000)

    const second = createSystem(tallyKind(), first.database, first.clock)
    second.system.restore()
    await second.clock.advance(1)
    expect(second.system.peek(TALLY, 'a')?.value).toBe('awake')
  })

  test('a fired or cancelled deadline leaves the snapshot too', async () => {
    const { send, spawn, flush, database, clock } = createSystem()
    spawn('a')
    send('a', { type: 'wait', until: clock.now() + 100 })
    await flush()
    expect(database.snapshotTable.get('tally')?.get('a')?.d).toBeDefined()
    send('a', { type: 'forget' })
    await flush()
    expect(database.snapshotTable.get('tally')?.get('a')?.d).toBeUndefined()
  })

  test('a restored state implies the effect that it waits for', async () => {
    const first = createSystem()
    first.spawn('a')
    first.send('a', { type: 'add' })
    await first.clock.settle()
    first.database.flush() // on disk; the process dies before the effects run
    const second = createSystem(tallyKind(), first.database)
    second.system.restore()
    await second.flush()
    expect(second.effectLog).toEqual(['a=1'])
  })

  test('a damaged snapshot is reported and left unchanged; the others are restored', () => {
    const database = new CrashDatabase()
    database.snapshotTable.set(
      'tally',
      new Map([
        ['bad', { v: 2, s: 'a', c: { name: 'bad', n: 'x' } }],
        ['good', { v: 2, s: 'a', c: { name: 'good', n: 1 } }],
      ]),
    )
    const { system } = createSystem(tallyKind(), database)
    expect(system.restore()).toMatchObject({
      ok: true,
      value: { restored: 1, damaged: [expect.stringContaining('tally bad')] },
    })
    expect(database.snapshotTable.get('tally')?.has('bad')).toBe(true)
  })

  test('a snapshot of a newer version stops the start', () => {
    const database = new CrashDatabase()
    database.snapshotTable.set('tally', new Map([['a', { v: 99, s: 'a', c: {} }]]))
    expect(createSystem(tallyKind(), database).system.restore()).toMatchObject({ ok: false })
  })

  test('`stop` cancels every timer', async () => {
    const { system, send, spawn, clock } = createSystem()
    spawn('a')
    send('a', { type: 'wait', until: clock.now() + 5_000 })
    spawn('b')
    send('b', { type: 'boom' })
    system.stop()
    expect(clock.timers).toBe(0)
    expect(system.count().get('tally')).toBe(0)
  })
})

describe('the snapshot of an actor that was given up', () => {
  test.each(['kept', 'fatal'] as const)(
    '%s: holds its last good state, even if that was not written yet',
    async (end) => {
      const { effectLog, send, spawn, flush, database } = createSystem(
        tallyKind({ restartAfterMs: [], finally: end }),
      )
      spawn('a')
      await flush()
      send('a', { type: 'add' })
      send('a', { type: 'boom' })
      await flush()
      expect(database.snapshotTable.get('tally')?.get('a')?.c).toEqual({ name: 'a', n: 1 })
      expect(effectLog).toEqual(['a=0', 'a=1'])
    },
  )

  test('closed: is erased, even if a commit of it was in flight', async () => {
    const { send, spawn, flush, database, clock } = createSystem(
      tallyKind({ restartAfterMs: [], finally: 'closed' }),
    )
    spawn('a')
    await clock.settle()
    send('a', { type: 'boom' })
    await flush()
    expect(database.snapshotTable.get('tally')?.has('a')).toBe(false)
  })

  test('with `onRepeatedCrash: give up` a repeated crash ends the actor instead of skipping the event', async () => {
    const { system, send, spawn, clock, fatal } = createSystem(
      tallyKind({ crashesMax: 10, onRepeatedCrash: 'give up', finally: 'fatal' }),
    )
    spawn('a')
    send('a', { type: 'boom' })
    await clock.advance(1_000)
    expect(system.peek(TALLY, 'a')).toBeUndefined()
    expect(fatal).toEqual(['tally a: crashed twice on boom'])
  })

  test('events held for a crashed actor do not reach the next actor of the same key', async () => {
    const { system, send, spawn, clock } = createSystem(tallyKind({ crashesMax: 2 }))
    spawn('a')
    send('a', { type: 'boom' })
    send('a', { type: 'add' })
    send('a', { type: 'boom' })
    await clock.advance(60_000)
    expect(system.peek(TALLY, 'a')).toBeUndefined()
    spawn('a')
    await clock.advance(60_000)
    expect(system.peek(TALLY, 'a')?.context).toMatchObject({ n: 0 })
  })

  test('final outputs that throw are logged, and the system continues', async () => {
    const { system, send, spawn, log } = createSystem(
      tallyKind({
        restartAfterMs: [],
        finalOutputs: () => {
          throw new Error('speechless')
        },
      }),
    )
    spawn('a')
    spawn('b')
    send('a', { type: 'boom' })
    send('b', { type: 'add' })
    expect(system.peek(TALLY, 'b')?.context).toMatchObject({ n: 1 })
    expect(log.lines.map((line) => line.message)).toContain(BUG_MESSAGES.finalOutputsFailed)
  })
})

describe('deadlines around crashes', () => {
  /** The tally machine with a `nap` deadline whose transition throws. */
  const nightmare = (supervision: Partial<Supervision> = {}): ActorKind => ({
    ...tallyKind({ crashesMax: 100, ...supervision }),
    logic: tallyMachine.provide({
      actions: {
        recordCount: () => {
          throw new Error('bad dream')
        },
      },
    }),
  })

  test('a deadline whose transition throws stays on disk, so that a restart fires it again', async () => {
    const first = createSystem()
    first.spawn('a')
    first.send('a', { type: 'wait', until: first.clock.now() + 1_000 })
    await first.flush()
    first.system.stop()

    const second = createSystem(nightmare(), first.database, first.clock)
    second.system.restore()
    await second.clock.advance(1_500)
    await second.flush()
    expect(first.database.snapshotTable.get('tally')?.get('a')?.d).toBeDefined()
    second.system.stop()

    const third = createSystem(tallyKind(), first.database, first.clock)
    third.system.restore()
    await third.clock.advance(1)
    expect(third.system.peek(TALLY, 'a')?.value).toBe('awake')
  })

  test('a deadline whose event is skipped leaves the disk too', async () => {
    const first = createSystem()
    first.spawn('a')
    first.send('a', { type: 'wait', until: first.clock.now() + 1_000 })
    await first.flush()
    first.system.stop()
    const second = createSystem(nightmare(), first.database, first.clock)
    second.system.restore()
    await second.clock.advance(10_000)
    await second.flush()
    expect(first.database.snapshotTable.get('tally')?.get('a')?.d).toBeUndefined()
  })

  test('a deadline that an earlier queued event moved does not fire at its old instant', async () => {
    const { system, send, spawn, clock } = createSystem(tallyKind({ crashesMax: 10 }))
    spawn('a')
    send('a', { type: 'wait', until: clock.now() + 500 })
    // The actor crashes. While it recovers, the move is held and the old instant passes.
    send('a', { type: 'boom' })
    expect(system.peek(TALLY, 'a')?.value).toBe('napping')
    send('a', { type: 'wait', until: clock.now() + 60_000 })
    await clock.advance(10_000)
    expect(system.peek(TALLY, 'a')?.value).toBe('napping')
    await clock.advance(60_000)
    expect(system.peek(TALLY, 'a')?.value).toBe('awake')
  })
})

describe('after a store failure', () => {
  test('no effect runs any more, and only diskless actors receive events', async () => {
    const { system, effectLog, send, spawn, flush, database, clock, fatal } = createSystem()
    spawn('a')
    await flush()
    send('a', { type: 'add' })
    await clock.settle()
    database.break('EIO')
    await clock.settle()
    send('a', { type: 'add' })
    spawn('b')
    await flush()
    expect(effectLog).toEqual(['a=0'])
    expect(system.peek(TALLY, 'a')?.context).toMatchObject({ n: 1 })
    expect(fatal).toEqual(['the store is broken: EIO'])
  })

  test('effects of a diskless actor do not wait for the disk', async () => {
    const { system, effectLog, spawn, clock, database } = createSystem({ ...tallyKind(), diskless: true })
    spawn('a')
    await clock.settle()
    expect(effectLog).toEqual(['a=0'])
    expect(database.inFlight).toBe(1)
    system.stopAfterStoreFailure('EIO')
    system.send(TALLY, 'a', { type: 'add' })
    await clock.settle()
    expect(effectLog).toEqual(['a=0', 'a=1'])
  })

  test.each(['closed', 'fatal'] as const)(
    'an effect of a diskless actor that throws is logged, and fatal only for a `fatal` kind (%s)',
    async (end) => {
      const { effectLog, spawn, clock, fatal, log } = createSystem({
        ...tallyKind({ finally: end }),
        diskless: true,
      })
      spawn('bad effect')
      spawn('b')
      await clock.settle()
      expect(effectLog).toEqual(['bad effect=0', 'b=0'])
      expect(log.lines.map((line) => line.message)).toContain('an effect failed')
      expect(fatal).toEqual(end === 'fatal' ? ['no'] : [])
    },
  )

  test('a state that the codec does not know is a fatal error', async () => {
    const layoutless = createSnapshotCodec({
      version: 2,
      states: { napping: 'z' },
      schema: { check: (value) => ({ ok: true, value }), text: '' },
      lifts: {},
    })
    const { spawn, clock, fatal } = createSystem({ ...tallyKind(), codec: layoutless })
    spawn('a')
    await clock.settle()
    expect(fatal).toEqual([expect.stringContaining('state awake has no code')])
  })
})

describe('snapshots on disk', () => {
  const holding = (key: string, record: ActorSnapshot, kind = 'tally') => {
    const database = new CrashDatabase()
    database.snapshotTable.set(kind, new Map([[key, record]]))
    return database
  }

  test.each<[string, ActorSnapshot]>([
    [
      'a deadline that is no instant',
      { v: 2, s: 'z', c: { name: 'a', n: 0 }, d: { nap: 'soon' as unknown as number } },
    ],
    ['an old record whose lift throws', { v: 1, s: 'a', c: null }],
  ])('%s counts as damage: the snapshot stays, and no actor is spawned over it', (_what, record) => {
    const database = holding('a', record)
    const { system, spawn } = createSystem(tallyKind(), database)
    expect(system.restore()).toMatchObject({
      ok: true,
      value: { restored: 0, damaged: [expect.stringContaining('tally a')] },
    })
    expect(spawn('a')).toMatchObject({ ok: false, refusal: { kind: 'failed' } })
    expect(spawn('b')).toMatchObject({ ok: true })
  })

  test('a snapshot of an unknown kind stops the start', () => {
    const { system } = createSystem(tallyKind(), holding('x', { v: 1, s: 'a', c: {} }, 'from the future'))
    expect(system.restore()).toMatchObject({ ok: false, refusal: { kind: 'gone' } })
  })
})

describe('spawns', () => {
  test('an actor that throws while it is spawned is refused, and its final outputs are sent', () => {
    const stillborn = tallyMachine.provide({
      actions: {
        recordCount: () => {
          throw new Error('stillborn')
        },
      },
    })
    const words: string[] = []
    const { spawn } = createSystem({
      ...tallyKind({
        finalOutputs: (key, _last, reason) => {
          words.push(`${key} ${reason}`)
          return []
        },
      }),
      logic: stillborn,
    })
    expect(spawn('a')).toMatchObject({ ok: false, refusal: { kind: 'failed' } })
    expect(words).toEqual([expect.stringMatching(/^a .*spawned$/)])
  })

  test('an action that spawns an unknown kind is a fatal error', () => {
    const { spawnActor } = defineActions<MachineContext, AnyEventObject, Effect>()
    const parent = setup({
      actions: { spawnUnknownKind: spawnActor(() => ({ to: { kind: 'nobody', key: 'x' }, input: {} })) },
    }).createMachine({ context: {}, on: { add: { actions: 'spawnUnknownKind' } } })
    const { system, fatal } = createSystem({ ...tallyKind(), logic: parent })
    system.spawn(TALLY, 'a', { name: 'a' })
    system.send(TALLY, 'a', { type: 'add' })
    expect(fatal).toEqual(['unknown actor kind nobody'])
    expect(system.send(TALLY, 'a', { type: 'add' })).toBe(true)
    expect(fatal).toHaveLength(2)
  })
})
