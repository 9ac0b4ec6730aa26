/**
 * Tests of the commit loop around actors: participants, `beforeCommit`, `onStateChange`, and effects that wait for a
 * commit.
 */
import { describe, expect, test } from '@jest/globals'
import type { ActorKind } from '../../../actors/runtime/actor-kind.ts'
import { ActorSystem, type StateChange, type SystemModules } from '../../../actors/runtime/actor-system.ts'
import type { CommitContribution, CommitParticipant } from '../../../actors/runtime/commit-loop.ts'
import { BUG_MESSAGES } from '../../../actors/runtime/commit-loop.ts'
import type { StoreState, Write } from '../../../core/ports/store.ts'
import {
  TALLY,
  type TallyContext,
  type TallyEffect,
  type TallyEvent,
  tallyKind,
} from '../../support/counter-actor.ts'
import { CrashDatabase } from '../../support/crash-database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'

/** Writes one value with the next commit after `note`. */
class NoteWriter implements CommitParticipant {
  readonly #log: string[]
  #next: { readonly text: string; readonly write: Write } | undefined
  throwsOnContribute = false
  throwsOnCommitted = false

  constructor(log: string[]) {
    this.#log = log
  }

  note(text: string): void {
    const write: Write = { table: 'key-value', collection: 'memory', key: 'scribe', value: { text } }
    this.#next = { text, write }
  }

  write(write: Write): void {
    this.#next = { text: 'a write', write }
  }

  contribute(): CommitContribution | undefined {
    if (this.throwsOnContribute) throw new Error('no pen')
    if (this.#next === undefined) return undefined
    const { text, write } = this.#next
    this.#next = undefined
    return {
      writes: [write],
      onCommitted: () => {
        this.#log.push(`committed ${text}`)
        if (this.throwsOnCommitted) throw new Error('no voice')
      },
    }
  }
}

interface ParticipantTestOptions extends Pick<SystemModules, 'beforeCommit' | 'hasInput' | 'onStateChange'> {
  readonly kind?: ActorKind
  readonly database?: CrashDatabase
  readonly clock?: ManualClock
}

function createSystem({
  kind = tallyKind(),
  database = new CrashDatabase(),
  clock = new ManualClock(),
  ...more
}: ParticipantTestOptions = {}) {
  const effectLog: string[] = []
  const fatal: string[] = []
  const log = createRecordingLog()
  const noteWriter = new NoteWriter(effectLog)
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
      },
      participants: [noteWriter],
      ...more,
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
  return { system, effectLog, fatal, log, send, spawn, flush, database, clock, noteWriter }
}

test('after a long turn the commit has a turn of its own, and contains what happens before that', async () => {
  const { spawn, clock, database, effectLog } = createSystem()
  spawn('a')
  clock.work(20)
  await clock.settle()
  expect(database.commits).toBe(0)
  spawn('b')
  await clock.advance(0)
  expect(database.commits).toBe(1)
  database.flush()
  await clock.settle()
  expect(effectLog).toEqual(['a=0', 'b=0'])
})

describe('input that has arrived', () => {
  test('belongs to the commit that waits for it', async () => {
    let waiting = ['b', 'c']
    const { spawn, clock, database } = createSystem({ hasInput: () => waiting.length > 0 })
    spawn('a')
    await clock.settle()
    for (const key of waiting) spawn(key)
    expect(database.commits).toBe(0)
    waiting = []
    await clock.advance(0)
    database.crash(1)
    expect([...(database.snapshotTable.get('tally')?.keys() ?? [])]).toEqual(['a', 'b', 'c'])
  })

  test('delays a commit for a tenth of a second at most', async () => {
    const { spawn, clock, database } = createSystem({
      hasInput() {
        clock.work(1)
        return true
      },
    })
    spawn('a')
    const began = clock.monotonic()
    while (database.commits === 0) await clock.advance(0)
    expect(clock.monotonic() - began).toBe(100)
  })
})

test('nothing is done about a commit when another process has taken the data directory over meanwhile', async () => {
  const state: StoreState = { is: 'broken', reason: 'somebody else owns it', takenOver: true }
  const database = Object.assign(new CrashDatabase(), { state: () => state })
  const { spawn, noteWriter, flush, effectLog, fatal } = createSystem({ database })
  spawn('a')
  noteWriter.note('with a')
  await flush()
  expect(effectLog).toEqual([])
  expect(fatal).toEqual([expect.stringContaining('somebody else owns it')])
})

describe('commit participants', () => {
  test('write in the same commit as the actors', async () => {
    const { spawn, noteWriter, database, clock } = createSystem()
    spawn('a')
    noteWriter.note('with a')
    await clock.settle()
    expect(database.commits).toBe(1)
    database.crash(1)
    expect(database.keyValueTable.get('memory')?.get('scribe')).toEqual({ text: 'with a' })
    expect(database.snapshotTable.get('tally')?.has('a')).toBe(true)
  })

  test('write after the actors, so that their record of the same row is the one that stays', async () => {
    const { spawn, noteWriter, database, clock } = createSystem()
    spawn('a')
    const record = { v: 1, s: 'on', c: { name: 'a', n: 7 } }
    noteWriter.write({ table: 'snapshot', kind: 'tally', key: 'a', record })
    await clock.settle()
    database.crash(1)
    expect(database.snapshotTable.get('tally')?.get('a')).toEqual(record)
  })

  test('are notified when the commit is on disk, before its effects run', async () => {
    const { spawn, noteWriter, effectLog, database, clock } = createSystem()
    spawn('a')
    noteWriter.note('with a')
    await clock.settle()
    expect(effectLog).toEqual([])
    database.flush()
    await clock.settle()
    expect(effectLog).toEqual(['committed with a', 'a=0'])
  })

  test('a participant that throws in `onCommitted` is logged, and the effects still run', async () => {
    const { spawn, noteWriter, effectLog, flush, log } = createSystem()
    noteWriter.throwsOnCommitted = true
    spawn('a')
    noteWriter.note('with a')
    await flush()
    expect(effectLog).toEqual(['committed with a', 'a=0'])
    expect(log.lines.map(({ message }) => message)).toContain(BUG_MESSAGES.participantThrew)
  })

  test('a participant that throws in `contribute` is fatal, because memory would be ahead of the disk', async () => {
    const { spawn, noteWriter, effectLog, flush, fatal, database } = createSystem()
    noteWriter.throwsOnContribute = true
    spawn('a')
    await flush()
    expect(fatal).toEqual(['the store is broken: no pen'])
    expect(database.commits).toBe(0)
    expect(effectLog).toEqual([])
  })

  test('no participant is notified when the store failed', async () => {
    const { spawn, noteWriter, effectLog, database, clock, fatal } = createSystem()
    spawn('a')
    noteWriter.note('with a')
    await clock.settle()
    database.break('EIO')
    await clock.settle()
    expect(effectLog).toEqual([])
    expect(fatal).toEqual(['the store is broken: EIO'])
  })

  test('`requestCommit` alone leads to a commit', async () => {
    const { system, noteWriter, effectLog, flush, database } = createSystem()
    noteWriter.note('alone')
    system.requestCommit()
    await flush()
    expect(effectLog).toEqual(['committed alone'])
    expect(database.commits).toBe(1)
  })

  test('`requestCommit` during a commit leads to the next one, although no actor is dirty', async () => {
    const { system, spawn, noteWriter, effectLog, database, clock, flush } = createSystem()
    spawn('a')
    await clock.settle()
    noteWriter.note('meanwhile')
    system.requestCommit()
    await clock.settle()
    expect(database.commits).toBe(1)
    await flush()
    expect(database.commits).toBe(2)
    expect(effectLog).toEqual(['a=0', 'committed meanwhile'])
  })

  test('without writes nothing is committed, and `settled` still resolves', async () => {
    const { system, database, clock } = createSystem()
    system.requestCommit()
    const settled = system.settled()
    await clock.settle()
    await settled
    expect(database.commits).toBe(0)
  })
})

describe('`beforeCommit`', () => {
  /** Sends `add` to actor `a` before the first commit that finds it at zero. */
  const adding = () => {
    const cuts: number[] = []
    const made: ReturnType<typeof createSystem> = createSystem({
      beforeCommit: () => {
        const n = (made.system.peek(TALLY, 'a')?.context as TallyContext | undefined)?.n ?? -1
        cuts.push(n)
        if (n === 0) made.send('a', { type: 'add' })
      },
    })
    return { ...made, cuts }
  }

  test('belongs to the commit: messages, state and effects', async () => {
    const { spawn, effectLog, database, clock } = adding()
    spawn('a')
    await clock.settle()
    expect(database.commits).toBe(1)
    database.flush()
    await clock.settle()
    expect(effectLog).toEqual(['a=0', 'a=1'])
    expect(database.snapshotTable.get('tally')?.get('a')?.c).toEqual({ name: 'a', n: 1 })
  })

  test('starts no second commit: only a single one is in flight', async () => {
    const { spawn, send, database, clock, cuts, flush } = adding()
    spawn('a')
    await clock.settle()
    expect(cuts).toEqual([0])
    send('a', { type: 'add' })
    await clock.settle()
    expect(database.inFlight).toBe(1)
    await flush()
    expect(cuts).toEqual([0, 2])
    expect(database.commits).toBe(2)
  })

  test('an actor spawned in it that ends before the commit is on disk leaves no snapshot', async () => {
    const made: ReturnType<typeof createSystem> = createSystem({
      beforeCommit: () => {
        if (made.database.commits === 0) made.spawn('b')
      },
    })
    made.spawn('a')
    await made.clock.settle()
    made.send('b', { type: 'end' })
    await made.flush()
    expect([...(made.database.snapshotTable.get('tally')?.keys() ?? [])]).toEqual(['a'])
  })

  test('is fatal when it throws', async () => {
    const { spawn, clock, fatal, log } = createSystem({
      beforeCommit: () => {
        throw new Error('undecided')
      },
    })
    spawn('a')
    await clock.settle()
    expect(fatal).toEqual(['undecided'])
    expect(log.lines.map(({ message }) => message)).toContain(BUG_MESSAGES.beforeCommitThrew)
  })
})

describe('`onStateChange`', () => {
  const watched = (options: ParticipantTestOptions = {}) => {
    const seen: string[] = []
    const n = (snapshot: StateChange['after'] | undefined) =>
      (snapshot?.context as TallyContext | undefined)?.n
    const watch = ({ key, before, after, over, restored }: StateChange) =>
      void seen.push(
        `${key} ${n(before) ?? 'nothing'} → ${n(after)}${over ? ' over' : ''}${restored ? ' restored' : ''}`,
      )
    return { ...createSystem({ ...options, onStateChange: watch }), seen }
  }

  test('reports spawns, changes and ends in the tick of their transition, and no failed transition', () => {
    const { spawn, send, seen } = watched()
    spawn('a')
    send('a', { type: 'add' })
    send('a', { type: 'boom' })
    spawn('b')
    send('b', { type: 'end' })
    expect(seen).toEqual(['a nothing → 0', 'a 0 → 1', 'b nothing → 0', 'b 0 → 0 over'])
  })

  test('reports nothing for an event that changes nothing', () => {
    const { spawn, send, seen } = watched()
    spawn('a')
    send('a', { type: 'forget' })
    expect(seen).toEqual(['a nothing → 0'])
  })

  test('reports all restored actors before anything that follows from them', async () => {
    const first = createSystem()
    first.spawn('a')
    first.spawn('b')
    first.send('b', { type: 'add' })
    await first.flush()
    const { system, seen } = watched({ database: first.database, clock: first.clock })
    system.restore()
    expect(seen).toEqual(['a nothing → 0 restored', 'b nothing → 1 restored'])
  })

  test('reports the end of an actor that was given up, with its last good state', async () => {
    const { spawn, send, clock, seen } = watched({ kind: tallyKind({ restartAfterMs: [] }) })
    spawn('a')
    send('a', { type: 'add' })
    send('a', { type: 'boom' })
    await clock.settle()
    expect(seen).toEqual(['a nothing → 0', 'a 0 → 1', 'a 1 → 1 over'])
  })

  test('is fatal when an observer throws, because observers would no longer agree with the actors', () => {
    const { spawn, fatal } = createSystem({
      onStateChange: () => {
        throw new Error('blind')
      },
    })
    spawn('a')
    expect(fatal).toEqual(['blind'])
  })
})

describe('`runAfterCommit`', () => {
  const last: TallyEffect = { type: 'tally.ended', name: 'afterwards' }

  test('runs the effect once everything before it is on disk', async () => {
    const { system, spawn, send, effectLog, database, clock } = createSystem()
    spawn('a')
    await clock.settle()
    send('a', { type: 'add' })
    system.runAfterCommit(last)
    database.flush()
    await clock.settle()
    expect(effectLog).toEqual(['a=0'])
    expect(database.inFlight).toBe(1)
    database.flush()
    await clock.settle()
    expect(effectLog).toEqual(['a=0', 'a=1', 'tally.ended afterwards'])
  })

  test('runs the effect at the end of the tick when there is nothing to wait for', async () => {
    const { system, effectLog, clock, database } = createSystem()
    system.runAfterCommit(last)
    expect(effectLog).toEqual([])
    await clock.settle()
    expect(effectLog).toEqual(['tally.ended afterwards'])
    expect(database.commits).toBe(0)
  })
})
