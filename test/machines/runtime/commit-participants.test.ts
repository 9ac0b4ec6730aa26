/**
 * What joins the commit loop from outside the lives: guests that write with every cut, the word right before it, the
 * watch over good states, and effects that wait for everything before them.
 */
import { describe, expect, test } from '@jest/globals'
import type { ActorKind } from '../../../actors/runtime/actor-kind.ts'
import { ActorSystem, type ActorSystemPorts, type StateChange } from '../../../actors/runtime/actor-system.ts'
import type { CommitContribution, CommitParticipant } from '../../../actors/runtime/commit-loop.ts'
import type { Write } from '../../../core/ports.ts'
import {
  type TallyContext,
  type TallyEffect,
  type TallyEvent,
  tallyKind,
} from '../../support/counter-actor.ts'
import { CrashDatabase } from '../../support/crash-database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { keptLog, noMeters } from '../../support/recording-log.ts'

/** Writes one fact with the next cut, once it was given one. */
class NoteWriter implements CommitParticipant {
  readonly #log: string[]
  #next: string | undefined
  throwsOnContribute = false
  throwsOnCommitted = false

  constructor(log: string[]) {
    this.#log = log
  }

  note(text: string): void {
    this.#next = text
  }

  contribute(): CommitContribution | undefined {
    if (this.throwsOnContribute) throw new Error('no pen')
    const text = this.#next
    if (text === undefined) return undefined
    this.#next = undefined
    const writes: Write[] = [{ table: 'key-value', collection: 'memory', key: 'scribe', value: { text } }]
    return {
      writes,
      onCommitted: () => {
        this.#log.push(`landed ${text}`)
        if (this.throwsOnCommitted) throw new Error('no voice')
      },
    }
  }
}

interface ParticipantTestOptions extends Pick<Partial<ActorSystemPorts>, 'beforeCommit' | 'onStateChange'> {
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
  const log = keptLog()
  const noteWriter = new NoteWriter(effectLog)
  const system = new ActorSystem({
    clock,
    database,
    log,
    meters: noMeters,
    kinds: [kind],
    runEffect: (effect) => {
      const { type, name, n } = effect as TallyEffect & { n?: number }
      effectLog.push(type === 'tally.told' ? `${name}=${n}` : `${type} ${name}`)
    },
    participants: [noteWriter],
    onFatal: (reason) => fatal.push(reason),
    ...more,
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
  return { system, effectLog, fatal, log, send, spawn, flush, database, clock, noteWriter }
}

describe('guests of the commit loop', () => {
  test('write in the same commit as the lives', async () => {
    const { spawn, noteWriter, database, clock } = createSystem()
    spawn('a')
    noteWriter.note('with a')
    await clock.turn()
    expect(database.commits).toBe(1)
    database.crash(1)
    expect(database.facts.get('memory')?.get('scribe')).toEqual({ text: 'with a' })
    expect(database.disk.get('tally')?.has('a')).toBe(true)
  })

  test('hear that it is on disk before any effect of the cut runs, and not before it is', async () => {
    const { spawn, noteWriter, effectLog, database, clock } = createSystem()
    spawn('a')
    noteWriter.note('with a')
    await clock.turn()
    expect(effectLog).toEqual([])
    database.flush()
    await clock.turn()
    expect(effectLog).toEqual(['landed with a', 'a=0'])
  })

  test('one that throws when it hears so is logged, and the effects still run', async () => {
    const { spawn, noteWriter, effectLog, flush, log } = createSystem()
    noteWriter.throwsOnCommitted = true
    spawn('a')
    noteWriter.note('with a')
    await flush()
    expect(effectLog).toEqual(['landed with a', 'a=0'])
    expect(log.lines.map(({ message }) => message)).toContain(
      'a commit participant threw after its writes were on disk',
    )
  })

  test('one that cannot say what it has to write is the end: memory would be ahead of the disk unseen', async () => {
    const { spawn, noteWriter, effectLog, flush, fatal, database } = createSystem()
    noteWriter.throwsOnContribute = true
    spawn('a')
    await flush()
    expect(fatal).toEqual(['the store is broken: no pen'])
    expect(database.commits).toBe(0)
    expect(effectLog).toEqual([])
  })

  test('nobody hears of what a broken store did not take', async () => {
    const { spawn, noteWriter, effectLog, database, clock, fatal } = createSystem()
    spawn('a')
    noteWriter.note('with a')
    await clock.turn()
    database.break('EIO')
    await clock.turn()
    expect(effectLog).toEqual([])
    expect(fatal).toEqual(['the store is broken: EIO'])
  })

  test('a stir alone leads to a cut', async () => {
    const { system, noteWriter, effectLog, flush, database } = createSystem()
    noteWriter.note('alone')
    system.requestCommit()
    await flush()
    expect(effectLog).toEqual(['landed alone'])
    expect(database.commits).toBe(1)
  })

  test('a stir while a commit is in flight leads to the next cut, although no life is dirty', async () => {
    const { system, spawn, noteWriter, effectLog, database, clock, flush } = createSystem()
    spawn('a')
    await clock.turn()
    noteWriter.note('meanwhile')
    system.requestCommit()
    await clock.turn()
    expect(database.commits).toBe(1)
    await flush()
    expect(database.commits).toBe(2)
    expect(effectLog).toEqual(['a=0', 'landed meanwhile'])
  })

  test('nothing to write means no commit, and is settled all the same', async () => {
    const { system, database, clock } = createSystem()
    system.requestCommit()
    const settled = system.settled()
    await clock.turn()
    await settled
    expect(database.commits).toBe(0)
  })
})

describe('the word right before a cut', () => {
  /** Tells `a` to add one before the first cut that finds it at zero. */
  const adding = () => {
    const cuts: number[] = []
    const made: ReturnType<typeof createSystem> = createSystem({
      beforeCommit: () => {
        const n = (made.system.peek('tally', 'a')?.context as TallyContext | undefined)?.n ?? -1
        cuts.push(n)
        if (n === 0) made.send('a', { type: 'add' })
      },
    })
    return { ...made, cuts }
  }

  test('is part of the cut: mail, state and effects', async () => {
    const { spawn, effectLog, database, clock } = adding()
    spawn('a')
    await clock.turn()
    expect(database.commits).toBe(1)
    database.flush()
    await clock.turn()
    expect(effectLog).toEqual(['a=0', 'a=1'])
    expect(database.disk.get('tally')?.get('a')?.c).toEqual({ name: 'a', n: 1 })
  })

  test('asks for no other cut beside it: one commit is in flight at a time', async () => {
    const { spawn, send, database, clock, cuts, flush } = adding()
    spawn('a')
    await clock.turn()
    expect(cuts).toEqual([0])
    send('a', { type: 'add' })
    await clock.turn()
    expect(database.inFlight).toBe(1)
    await flush()
    expect(cuts).toEqual([0, 2])
    expect(database.commits).toBe(2)
  })

  test('a life born in it and over before that is on disk leaves no record', async () => {
    const made: ReturnType<typeof createSystem> = createSystem({
      beforeCommit: () => {
        if (made.database.commits === 0) made.spawn('b')
      },
    })
    made.spawn('a')
    await made.clock.turn()
    made.send('b', { type: 'end' })
    await made.flush()
    expect([...(made.database.disk.get('tally')?.keys() ?? [])]).toEqual(['a'])
  })

  test('one that throws stops the host', async () => {
    const { spawn, clock, fatal, log } = createSystem({
      beforeCommit: () => {
        throw new Error('undecided')
      },
    })
    spawn('a')
    await clock.turn()
    expect(fatal).toEqual(['undecided'])
    expect(log.lines.map(({ message }) => message)).toContain('the step before a commit threw')
  })
})

describe('the watch', () => {
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

  test('sees births, changes and ends in the tick of their transition, and no failed one', () => {
    const { spawn, send, seen } = watched()
    spawn('a')
    send('a', { type: 'add' })
    send('a', { type: 'boom' })
    spawn('b')
    send('b', { type: 'end' })
    expect(seen).toEqual(['a nothing → 0', 'a 0 → 1', 'b nothing → 0', 'b 0 → 0 over'])
  })

  test('an event that changes nothing is no change', () => {
    const { spawn, send, seen } = watched()
    spawn('a')
    send('a', { type: 'forget' })
    expect(seen).toEqual(['a nothing → 0'])
  })

  test('sees what was restored, all of it before anything that follows from it', async () => {
    const first = createSystem()
    first.spawn('a')
    first.spawn('b')
    first.send('b', { type: 'add' })
    await first.flush()
    const { system, seen } = watched({ database: first.database, clock: first.clock })
    system.restore()
    expect(seen).toEqual(['a nothing → 0 restored', 'b nothing → 1 restored'])
  })

  test('a life that was given up is over, with its last good state', async () => {
    const { spawn, send, clock, seen } = watched({ kind: tallyKind({ restartAfterMs: [] }) })
    spawn('a')
    send('a', { type: 'add' })
    send('a', { type: 'boom' })
    await clock.turn()
    expect(seen).toEqual(['a nothing → 0', 'a 0 → 1', 'a 1 → 1 over'])
  })

  test('one that throws stops the host: what is known of the lives would not be what they are', () => {
    const { spawn, fatal } = createSystem({
      onStateChange: () => {
        throw new Error('blind')
      },
    })
    spawn('a')
    expect(fatal).toEqual(['blind'])
  })
})

describe('afterwards', () => {
  const last: TallyEffect = { type: 'tally.ended', name: 'afterwards' }

  test('runs once everything before it is on disk', async () => {
    const { system, spawn, send, effectLog, database, clock } = createSystem()
    spawn('a')
    await clock.turn()
    send('a', { type: 'add' })
    system.runAfterCommit(last)
    database.flush()
    await clock.turn()
    expect(effectLog).toEqual(['a=0'])
    expect(database.inFlight).toBe(1)
    database.flush()
    await clock.turn()
    expect(effectLog).toEqual(['a=0', 'a=1', 'tally.ended afterwards'])
  })

  test('runs at the end of the turn when there is nothing to wait for', async () => {
    const { system, effectLog, clock, database } = createSystem()
    system.runAfterCommit(last)
    expect(effectLog).toEqual([])
    await clock.turn()
    expect(effectLog).toEqual(['tally.ended afterwards'])
    expect(database.commits).toBe(0)
  })
})
