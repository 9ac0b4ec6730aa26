import { describe, expect, test } from '@jest/globals'
import { type AnyEventObject, type MachineContext, setup } from 'xstate'
import { defineActions } from '../../../actors/runtime/actions.ts'
import type { ActorKind, Supervision } from '../../../actors/runtime/actor-kind.ts'
import { ActorSystem } from '../../../actors/runtime/actor-system.ts'
import { createSnapshotCodec } from '../../../actors/runtime/snapshot-codec.ts'
import type { Effect } from '../../../actors/runtime/transition-output.ts'
import type { ActorSnapshot } from '../../../core/ports.ts'
import { type TallyEffect, type TallyEvent, tallyKind, tallyMachine } from '../../support/counter-actor.ts'
import { CrashDatabase } from '../../support/crash-database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { keptLog, noMeters } from '../../support/recording-log.ts'

function createSystem(
  kind: ActorKind = tallyKind(),
  database = new CrashDatabase(),
  clock = new ManualClock(),
) {
  const effectLog: string[] = []
  const fatal: string[] = []
  const log = keptLog()
  const system = new ActorSystem({
    clock,
    database,
    log,
    meters: noMeters,
    kinds: [kind],
    runEffect: (effect) => {
      const { type, name, n } = effect as TallyEffect & { n?: number }
      effectLog.push(type === 'tally.told' ? `${name}=${n}` : `${type} ${name}`)
      if (name === 'bad effect') throw new Error('no')
    },
    onFatal: (reason) => fatal.push(reason),
  })
  const send = (key: string, event: TallyEvent) => system.send('tally', key, event)
  const spawn = (key: string) => system.spawn('tally', key, { name: key })
  const flush = async () => {
    await clock.turn()
    while (database.inFlight > 0) {
      database.flush()
      await clock.turn()
    }
  }
  return { system, effectLog, fatal, log, send, spawn, flush, database, clock }
}

describe('the commit loop', () => {
  test('an effect waits for its cause: nothing is told before the flush, everything after', async () => {
    const { effectLog, send, spawn, database, clock } = createSystem()
    spawn('a')
    send('a', { type: 'add' })
    await clock.turn()
    expect(effectLog).toEqual([])
    database.flush()
    await clock.turn()
    expect(effectLog).toEqual(['a=0', 'a=1'])
  })

  test('everything that happens in one turn shares one commit; what happens meanwhile shares the next', async () => {
    const { send, spawn, database, clock, flush } = createSystem()
    for (const key of ['a', 'b', 'c']) spawn(key)
    await clock.turn()
    expect(database.commits).toBe(1)
    for (const key of ['a', 'b', 'c']) send(key, { type: 'add' })
    await clock.turn()
    expect(database.commits).toBe(1)
    await flush()
    expect(database.commits).toBe(2)
  })

  test('what may be told of a life lags behind what it is, until the flush', async () => {
    const { system, send, spawn, flush } = createSystem()
    spawn('a')
    await flush()
    send('a', { type: 'add' })
    expect(system.peek('tally', 'a')?.context).toMatchObject({ n: 1 })
    expect(system.peekDurable('tally', 'a')?.context).toMatchObject({ n: 0 })
    await flush()
    expect(system.peekDurable('tally', 'a')?.context).toMatchObject({ n: 1 })
  })

  test('an effect that throws is logged, and the others still happen', async () => {
    const { effectLog, spawn, flush, log } = createSystem()
    spawn('bad effect')
    spawn('b')
    await flush()
    expect(effectLog).toEqual(['bad effect=0', 'b=0'])
    expect(log.lines.map((line) => line.message)).toContain('an effect failed')
  })

  test('a broken store is the end: no effect of what was in flight, and the host says so', async () => {
    const { effectLog, spawn, database, clock, fatal } = createSystem()
    spawn('a')
    await clock.turn()
    database.break('EIO')
    await clock.turn()
    expect(effectLog).toEqual([])
    expect(fatal).toEqual(['the store is broken: EIO'])
  })

  test('a life that ends leaves no record', async () => {
    const { system, effectLog, send, spawn, flush, database } = createSystem()
    spawn('a')
    await flush()
    send('a', { type: 'end' })
    expect(system.send('tally', 'a', { type: 'add' })).toBe(false)
    await flush()
    expect(effectLog).toEqual(['a=0', 'tally.ended a'])
    expect(database.disk.get('tally')?.size).toBe(0)
  })

  test('a key may be used again within the same turn', async () => {
    const { send, spawn, flush, database } = createSystem()
    spawn('a')
    send('a', { type: 'end' })
    spawn('a')
    send('a', { type: 'add' })
    await flush()
    expect(database.disk.get('tally')?.get('a')?.c).toEqual({ name: 'a', n: 1 })
  })

  test('settled means committed and told', async () => {
    const { system, effectLog, spawn, database, clock } = createSystem()
    spawn('a')
    let settled = false
    const waiting = system.settled().then(() => {
      settled = true
    })
    await clock.turn()
    expect(settled).toBe(false)
    database.flush()
    await clock.turn()
    await waiting
    expect(effectLog).toEqual(['a=0'])
  })
})

describe('mail and births', () => {
  test('mail is delivered within the tick, after the transition that sent it', async () => {
    const { system, send, spawn } = createSystem()
    spawn('a')
    spawn('b')
    send('a', { type: 'pass', to: 'b' })
    expect(system.peek('tally', 'b')?.context).toMatchObject({ n: 1 })
  })

  test('a life bears another', async () => {
    const { system, send, spawn } = createSystem()
    spawn('a')
    send('a', { type: 'bear', name: 'child' })
    expect(system.peek('tally', 'child')?.value).toBe('awake')
  })

  test('a second one of the same key is refused', () => {
    const { spawn } = createSystem()
    spawn('a')
    expect(spawn('a')).toMatchObject({ ok: false, refusal: { kind: 'conflict' } })
  })

  test('mail for nobody is no error', () => {
    const { send, spawn } = createSystem()
    spawn('a')
    expect(send('a', { type: 'pass', to: 'nobody' })).toBe(true)
    expect(send('nobody', { type: 'add' })).toBe(false)
  })
})

describe('supervision', () => {
  test('a transition that throws leaves nothing behind: no state, no effect, no mail, no deadline', async () => {
    const { system, effectLog, send, spawn, flush, clock } = createSystem()
    spawn('a')
    spawn('b')
    send('a', { type: 'boom' })
    await flush()
    expect(system.peek('tally', 'a')?.context).toMatchObject({ n: 0 })
    expect(effectLog).toEqual(['a=0', 'b=0'])
    expect(system.pendingDeadlines()).toBe(0)
    await clock.advance(0)
  })

  test('one failing life takes no other down', async () => {
    const { system, send, spawn } = createSystem()
    spawn('a')
    spawn('b')
    send('a', { type: 'boom' })
    send('b', { type: 'add' })
    expect(system.peek('tally', 'b')?.context).toMatchObject({ n: 1 })
  })

  test('what it had done before the crash is still committed', async () => {
    const { effectLog, send, spawn, flush, database } = createSystem()
    spawn('a')
    send('a', { type: 'add' })
    send('a', { type: 'boom' })
    await flush()
    expect(effectLog).toEqual(['a=0', 'a=1'])
    expect(database.disk.get('tally')?.get('a')?.c).toEqual({ name: 'a', n: 1 })
  })

  test('it comes back after a pause, and what arrived meanwhile is not lost', async () => {
    const { system, send, spawn, clock } = createSystem(tallyKind({ crashesMax: 10 }))
    spawn('a')
    send('a', { type: 'boom' })
    send('a', { type: 'add' })
    send('a', { type: 'add' })
    expect(system.peek('tally', 'a')?.context).toMatchObject({ n: 0 })
    // 1 s: the same event again, which throws again and is skipped; 2 s more: back for good.
    await clock.advance(1_000)
    expect(system.peek('tally', 'a')?.context).toMatchObject({ n: 0 })
    await clock.advance(2_000)
    expect(system.peek('tally', 'a')?.context).toMatchObject({ n: 2 })
  })

  test('an event that crashes it twice is recorded and skipped', async () => {
    const { send, spawn, clock, log } = createSystem(tallyKind({ crashesMax: 10 }))
    spawn('a')
    send('a', { type: 'boom' })
    await clock.advance(10_000)
    expect(log.lines.filter((line) => line.message.includes('skipped'))).toHaveLength(1)
  })

  test('too many crashes in the window: given up, off the disk, and others are told', async () => {
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
    expect(system.peek('tally', 'a')).toBeUndefined()
    expect(database.disk.get('tally')?.has('a')).toBe(false)
    expect(system.peek('tally', 'b')?.context).toMatchObject({ n: 1 })
    expect(effectLog).toContain('tally.ended a')
  })

  test('given up but kept: its record stays for the next start', async () => {
    const { system, send, spawn, flush, database } = createSystem(
      tallyKind({ restartAfterMs: [], finally: 'kept' }),
    )
    spawn('a')
    await flush()
    send('a', { type: 'boom' })
    await flush()
    expect(system.peek('tally', 'a')).toBeUndefined()
    expect(database.disk.get('tally')?.has('a')).toBe(true)
  })

  test('given up but kept: nobody is born over its record, or may say that there is none', async () => {
    const { system, send, spawn, flush, database } = createSystem(
      tallyKind({ restartAfterMs: [], finally: 'kept' }),
    )
    spawn('a')
    await flush()
    const kept = database.disk.get('tally')?.get('a')
    send('a', { type: 'boom' })
    expect(system.isDamaged('tally', 'a')).toBe(true)
    expect(system.spawn('tally', 'a', {})).toMatchObject({ ok: false })
    await flush()
    expect(database.disk.get('tally')?.get('a')).toEqual(kept)
  })

  test('crashes far apart are forgiven', async () => {
    const { system, send, spawn, clock } = createSystem(
      tallyKind({ withinMs: 1_000, restartAfterMs: [2_000] }),
    )
    spawn('a')
    for (let i = 0; i < 10; i++) {
      send('a', { type: 'boom' })
      await clock.advance(10_000)
    }
    expect(system.peek('tally', 'a')).toBeDefined()
  })

  test('a kind nothing works without stops the host', () => {
    const { send, spawn, fatal } = createSystem(tallyKind({ restartAfterMs: [], finally: 'fatal' }))
    spawn('a')
    send('a', { type: 'boom' })
    expect(fatal).toEqual(['tally a: crashed 1 times'])
  })

  test('lives that answer each other for ever are stopped, not waited for', () => {
    const { sendEvent: send } = defineActions<MachineContext, AnyEventObject, Effect>()
    const echo = setup({
      actions: { pingBack: send(() => ({ to: { kind: 'tally', key: 'a' }, event: { type: 'ping' } })) },
    }).createMachine({ context: {}, on: { ping: { actions: 'pingBack' } } })
    const { system, fatal } = createSystem({ ...tallyKind(), logic: echo })
    system.spawn('tally', 'a', {})
    system.send('tally', 'a', { type: 'ping' })
    expect(fatal).toEqual([expect.stringContaining('answer each other')])
    system.stop()
  })
})

describe('deadlines and restarts', () => {
  test('a deadline reaches its life, and survives a restart', async () => {
    const first = createSystem()
    first.spawn('a')
    first.send('a', { type: 'wait', until: first.clock.now() + 5_000 })
    await first.flush()
    first.system.stop()

    const second = createSystem(tallyKind(), first.database, first.clock)
    expect(second.system.restore()).toMatchObject({ ok: true, value: { restored: 1 } })
    expect(second.system.peek('tally', 'a')?.value).toBe('napping')
    await second.clock.advance(5_000)
    expect(second.system.peek('tally', 'a')?.value).toBe('awake')
  })

  test('one that came due while nobody was there fires right after the start', async () => {
    const first = createSystem()
    first.spawn('a')
    first.send('a', { type: 'wait', until: first.clock.now() + 5_000 })
    await first.flush()
    first.system.stop()
    await first.clock.advance(60_000)

    const second = createSystem(tallyKind(), first.database, first.clock)
    second.system.restore()
    await second.clock.advance(1)
    expect(second.system.peek('tally', 'a')?.value).toBe('awake')
  })

  test('a fired or cancelled deadline is gone from the record too', async () => {
    const { send, spawn, flush, database, clock } = createSystem()
    spawn('a')
    send('a', { type: 'wait', until: clock.now() + 100 })
    await flush()
    expect(database.disk.get('tally')?.get('a')?.d).toBeDefined()
    send('a', { type: 'forget' })
    await flush()
    expect(database.disk.get('tally')?.get('a')?.d).toBeUndefined()
  })

  test('a restored state says which effect it is waiting for', async () => {
    const first = createSystem()
    first.spawn('a')
    first.send('a', { type: 'add' })
    await first.clock.turn()
    first.database.flush() // on disk; the process dies before the effects run
    const second = createSystem(tallyKind(), first.database)
    second.system.restore()
    await second.flush()
    expect(second.effectLog).toEqual(['a=1'])
  })

  test('a damaged record is reported and left alone; the others come back', () => {
    const database = new CrashDatabase()
    database.disk.set(
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
    expect(database.disk.get('tally')?.has('bad')).toBe(true)
  })

  test('a record from the future stops the start', () => {
    const database = new CrashDatabase()
    database.disk.set('tally', new Map([['a', { v: 99, s: 'a', c: {} }]]))
    expect(createSystem(tallyKind(), database).system.restore()).toMatchObject({ ok: false })
  })

  test('stopping lets go of every timer', async () => {
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

describe('what is on disk of a life that was given up', () => {
  test.each(['kept', 'fatal'] as const)(
    '%s: its last good state, even if it was not written yet',
    async (end) => {
      const { effectLog, send, spawn, flush, database } = createSystem(
        tallyKind({ restartAfterMs: [], finally: end }),
      )
      spawn('a')
      await flush()
      send('a', { type: 'add' })
      send('a', { type: 'boom' })
      await flush()
      expect(database.disk.get('tally')?.get('a')?.c).toEqual({ name: 'a', n: 1 })
      expect(effectLog).toEqual(['a=0', 'a=1'])
    },
  )

  test('closed: nothing, even if a commit of it was in flight', async () => {
    const { send, spawn, flush, database, clock } = createSystem(
      tallyKind({ restartAfterMs: [], finally: 'closed' }),
    )
    spawn('a')
    await clock.turn()
    send('a', { type: 'boom' })
    await flush()
    expect(database.disk.get('tally')?.has('a')).toBe(false)
  })

  test('an event it may not be without ends it, instead of being skipped', async () => {
    const { system, send, spawn, clock, fatal } = createSystem(
      tallyKind({ crashesMax: 10, onRepeatedCrash: 'give up', finally: 'fatal' }),
    )
    spawn('a')
    send('a', { type: 'boom' })
    await clock.advance(1_000)
    expect(system.peek('tally', 'a')).toBeUndefined()
    expect(fatal).toEqual(['tally a: crashed twice on boom'])
  })

  test('what was parked for it does not reach the next one of its name', async () => {
    const { system, send, spawn, clock } = createSystem(tallyKind({ crashesMax: 2 }))
    spawn('a')
    send('a', { type: 'boom' })
    send('a', { type: 'add' })
    send('a', { type: 'boom' })
    await clock.advance(60_000)
    expect(system.peek('tally', 'a')).toBeUndefined()
    spawn('a')
    await clock.advance(60_000)
    expect(system.peek('tally', 'a')?.context).toMatchObject({ n: 0 })
  })

  test('last words that fail are logged, and nothing is wedged', async () => {
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
    expect(system.peek('tally', 'b')?.context).toMatchObject({ n: 1 })
    expect(log.lines.map((line) => line.message)).toContain('the final outputs of an actor failed')
  })
})

describe('deadlines around crashes', () => {
  /** Like the tally, but its nap ends in a crash. */
  const nightmare = (supervision: Partial<Supervision> = {}): ActorKind => ({
    ...tallyKind({ crashesMax: 100, ...supervision }),
    logic: tallyMachine.provide({
      actions: {
        say: () => {
          throw new Error('bad dream')
        },
      },
    }),
  })

  test('one whose transition throws stays on disk until it is through: a restart fires it again', async () => {
    const first = createSystem()
    first.spawn('a')
    first.send('a', { type: 'wait', until: first.clock.now() + 1_000 })
    await first.flush()
    first.system.stop()

    const second = createSystem(nightmare(), first.database, first.clock)
    second.system.restore()
    await second.clock.advance(1_500)
    await second.flush()
    expect(first.database.disk.get('tally')?.get('a')?.d).toBeDefined()
    second.system.stop()

    const third = createSystem(tallyKind(), first.database, first.clock)
    third.system.restore()
    await third.clock.advance(1)
    expect(third.system.peek('tally', 'a')?.value).toBe('awake')
  })

  test('one that is skipped at last is gone from the disk too', async () => {
    const first = createSystem()
    first.spawn('a')
    first.send('a', { type: 'wait', until: first.clock.now() + 1_000 })
    await first.flush()
    first.system.stop()
    const second = createSystem(nightmare(), first.database, first.clock)
    second.system.restore()
    await second.clock.advance(10_000)
    await second.flush()
    expect(first.database.disk.get('tally')?.get('a')?.d).toBeUndefined()
  })

  test('one that was moved by what waited before it does not fire at its old instant', async () => {
    const { system, send, spawn, clock } = createSystem(tallyKind({ crashesMax: 10 }))
    spawn('a')
    send('a', { type: 'wait', until: clock.now() + 500 })
    // Crashes; while it recovers, the move is parked, and then the old instant passes.
    send('a', { type: 'boom' })
    expect(system.peek('tally', 'a')?.value).toBe('napping')
    send('a', { type: 'wait', until: clock.now() + 60_000 })
    await clock.advance(10_000)
    expect(system.peek('tally', 'a')?.value).toBe('napping')
    await clock.advance(60_000)
    expect(system.peek('tally', 'a')?.value).toBe('awake')
  })
})

describe('after the store broke', () => {
  test('nothing that is not on disk has an effect any more, and only diskless lives hear anything', async () => {
    const { system, effectLog, send, spawn, flush, database, clock, fatal } = createSystem()
    spawn('a')
    await flush()
    send('a', { type: 'add' })
    await clock.turn()
    database.break('EIO')
    await clock.turn()
    send('a', { type: 'add' })
    spawn('b')
    await flush()
    expect(effectLog).toEqual(['a=0'])
    expect(system.peek('tally', 'a')?.context).toMatchObject({ n: 1 })
    expect(fatal).toEqual(['the store is broken: EIO'])
  })

  test('a diskless life does not wait for the disk', async () => {
    const { system, effectLog, spawn, clock, database } = createSystem({ ...tallyKind(), diskless: true })
    spawn('a')
    await clock.turn()
    expect(effectLog).toEqual(['a=0'])
    expect(database.inFlight).toBe(1)
    system.stopAfterStoreFailure('EIO')
    system.send('tally', 'a', { type: 'add' })
    await clock.turn()
    expect(effectLog).toEqual(['a=0', 'a=1'])
  })

  test.each(['closed', 'fatal'] as const)(
    'an effect of a diskless life that throws is logged, and is the end only if it is that life’s (%s)',
    async (end) => {
      const { effectLog, spawn, clock, fatal, log } = createSystem({
        ...tallyKind({ finally: end }),
        diskless: true,
      })
      spawn('bad effect')
      spawn('b')
      await clock.turn()
      expect(effectLog).toEqual(['bad effect=0', 'b=0'])
      expect(log.lines.map((line) => line.message)).toContain('an effect failed')
      expect(fatal).toEqual(end === 'fatal' ? ['no'] : [])
    },
  )

  test('a state that its layout does not know is the end, not a silence', async () => {
    const layoutless = createSnapshotCodec({
      version: 2,
      states: { napping: 'z' },
      schema: { check: (value) => ({ ok: true, value }), text: '' },
      lifts: {},
    })
    const { spawn, clock, fatal } = createSystem({ ...tallyKind(), codec: layoutless })
    spawn('a')
    await clock.turn()
    expect(fatal).toEqual([expect.stringContaining('state awake has no code')])
  })
})

describe('what the disk may hold', () => {
  const holding = (key: string, record: ActorSnapshot, kind = 'tally') => {
    const database = new CrashDatabase()
    database.disk.set(kind, new Map([[key, record]]))
    return database
  }

  test.each<[string, ActorSnapshot]>([
    [
      'a deadline that is no instant',
      { v: 2, s: 'z', c: { name: 'a', n: 0 }, d: { nap: 'soon' as unknown as number } },
    ],
    ['an old record whose lift throws', { v: 1, s: 'a', c: null }],
  ])('%s is damage: left alone, and nobody is born over it', (_what, record) => {
    const database = holding('a', record)
    const { system, spawn } = createSystem(tallyKind(), database)
    expect(system.restore()).toMatchObject({
      ok: true,
      value: { restored: 0, damaged: [expect.stringContaining('tally a')] },
    })
    expect(spawn('a')).toMatchObject({ ok: false, refusal: { kind: 'failed' } })
    expect(spawn('b')).toMatchObject({ ok: true })
  })

  test('lives of a kind this version does not know stop the start', () => {
    const { system } = createSystem(tallyKind(), holding('x', { v: 1, s: 'a', c: {} }, 'from the future'))
    expect(system.restore()).toMatchObject({ ok: false, refusal: { kind: 'gone' } })
  })
})

describe('births', () => {
  test('one that throws is answered, and others are told', () => {
    const stillborn = tallyMachine.provide({
      actions: {
        say: () => {
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
    expect(words).toEqual(['a threw while it was spawned'])
  })

  test('a kind nobody knows, asked for by a deed, is the end and not a wedge', () => {
    const { spawnActor: bearing } = defineActions<MachineContext, AnyEventObject, Effect>()
    const parent = setup({
      actions: { spawnUnknownKind: bearing(() => ({ to: { kind: 'nobody', key: 'x' }, input: {} })) },
    }).createMachine({ context: {}, on: { go: { actions: 'spawnUnknownKind' } } })
    const { system, fatal } = createSystem({ ...tallyKind(), logic: parent })
    system.spawn('tally', 'a', {})
    system.send('tally', 'a', { type: 'go' })
    expect(fatal).toEqual(['unknown actor kind nobody'])
    expect(system.send('tally', 'a', { type: 'go' })).toBe(true)
    expect(fatal).toHaveLength(2)
  })
})
