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
class Scribe implements CommitParticipant {
  readonly #log: string[]
  #next: string | undefined
  troubleJoining = false
  troubleLanding = false

  constructor(log: string[]) {
    this.#log = log
  }

  note(text: string): void {
    this.#next = text
  }

  contribute(): CommitContribution | undefined {
    if (this.troubleJoining) throw new Error('no pen')
    const text = this.#next
    if (text === undefined) return undefined
    this.#next = undefined
    const writes: Write[] = [{ table: 'key-value', collection: 'memory', key: 'scribe', value: { text } }]
    return {
      writes,
      onCommitted: () => {
        this.#log.push(`landed ${text}`)
        if (this.troubleLanding) throw new Error('no voice')
      },
    }
  }
}

interface Options extends Pick<Partial<ActorSystemPorts>, 'beforeCommit' | 'onStateChange'> {
  readonly kind?: ActorKind
  readonly database?: CrashDatabase
  readonly clock?: ManualClock
}

function stage({
  kind = tallyKind(),
  database = new CrashDatabase(),
  clock = new ManualClock(),
  ...more
}: Options = {}) {
  const told: string[] = []
  const fatal: string[] = []
  const log = keptLog()
  const scribe = new Scribe(told)
  const system = new ActorSystem({
    clock,
    database,
    log,
    meters: noMeters,
    kinds: [kind],
    runEffect: (effect) => {
      const { type, name, n } = effect as TallyEffect & { n?: number }
      told.push(type === 'tally.told' ? `${name}=${n}` : `${type} ${name}`)
    },
    participants: [scribe],
    onFatal: (reason) => fatal.push(reason),
    ...more,
  })
  const tell = (key: string, event: TallyEvent) => system.send('tally', key, event)
  const bear = (key: string) => system.spawn('tally', key, { name: key })
  const flush = async () => {
    await clock.turn()
    while (database.inFlight > 0) {
      database.flush()
      await clock.turn()
    }
  }
  return { system, told, fatal, log, tell, bear, flush, database, clock, scribe }
}

describe('guests of the commit loop', () => {
  test('write in the same commit as the lives', async () => {
    const { bear, scribe, database, clock } = stage()
    bear('a')
    scribe.note('with a')
    await clock.turn()
    expect(database.commits).toBe(1)
    database.crash(1)
    expect(database.facts.get('memory')?.get('scribe')).toEqual({ text: 'with a' })
    expect(database.disk.get('tally')?.has('a')).toBe(true)
  })

  test('hear that it is on disk before any effect of the cut runs, and not before it is', async () => {
    const { bear, scribe, told, database, clock } = stage()
    bear('a')
    scribe.note('with a')
    await clock.turn()
    expect(told).toEqual([])
    database.flush()
    await clock.turn()
    expect(told).toEqual(['landed with a', 'a=0'])
  })

  test('one that throws when it hears so is logged, and the effects still run', async () => {
    const { bear, scribe, told, flush, log } = stage()
    scribe.troubleLanding = true
    bear('a')
    scribe.note('with a')
    await flush()
    expect(told).toEqual(['landed with a', 'a=0'])
    expect(log.lines.map(({ message }) => message)).toContain(
      'a commit participant threw after its writes were on disk',
    )
  })

  test('one that cannot say what it has to write is the end: memory would be ahead of the disk unseen', async () => {
    const { bear, scribe, told, flush, fatal, database } = stage()
    scribe.troubleJoining = true
    bear('a')
    await flush()
    expect(fatal).toEqual(['the store is broken: no pen'])
    expect(database.commits).toBe(0)
    expect(told).toEqual([])
  })

  test('nobody hears of what a broken store did not take', async () => {
    const { bear, scribe, told, database, clock, fatal } = stage()
    bear('a')
    scribe.note('with a')
    await clock.turn()
    database.break('EIO')
    await clock.turn()
    expect(told).toEqual([])
    expect(fatal).toEqual(['the store is broken: EIO'])
  })

  test('a stir alone leads to a cut', async () => {
    const { system, scribe, told, flush, database } = stage()
    scribe.note('alone')
    system.requestCommit()
    await flush()
    expect(told).toEqual(['landed alone'])
    expect(database.commits).toBe(1)
  })

  test('a stir while a commit is in flight leads to the next cut, although no life is dirty', async () => {
    const { system, bear, scribe, told, database, clock, flush } = stage()
    bear('a')
    await clock.turn()
    scribe.note('meanwhile')
    system.requestCommit()
    await clock.turn()
    expect(database.commits).toBe(1)
    await flush()
    expect(database.commits).toBe(2)
    expect(told).toEqual(['a=0', 'landed meanwhile'])
  })

  test('nothing to write means no commit, and is settled all the same', async () => {
    const { system, database, clock } = stage()
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
    const made: ReturnType<typeof stage> = stage({
      beforeCommit: () => {
        const n = (made.system.peek('tally', 'a')?.context as TallyContext | undefined)?.n ?? -1
        cuts.push(n)
        if (n === 0) made.tell('a', { type: 'add' })
      },
    })
    return { ...made, cuts }
  }

  test('is part of the cut: mail, state and effects', async () => {
    const { bear, told, database, clock } = adding()
    bear('a')
    await clock.turn()
    expect(database.commits).toBe(1)
    database.flush()
    await clock.turn()
    expect(told).toEqual(['a=0', 'a=1'])
    expect(database.disk.get('tally')?.get('a')?.c).toEqual({ name: 'a', n: 1 })
  })

  test('asks for no other cut beside it: one commit is in flight at a time', async () => {
    const { bear, tell, database, clock, cuts, flush } = adding()
    bear('a')
    await clock.turn()
    expect(cuts).toEqual([0])
    tell('a', { type: 'add' })
    await clock.turn()
    expect(database.inFlight).toBe(1)
    await flush()
    expect(cuts).toEqual([0, 2])
    expect(database.commits).toBe(2)
  })

  test('a life born in it and over before that is on disk leaves no record', async () => {
    const made: ReturnType<typeof stage> = stage({
      beforeCommit: () => {
        if (made.database.commits === 0) made.bear('b')
      },
    })
    made.bear('a')
    await made.clock.turn()
    made.tell('b', { type: 'end' })
    await made.flush()
    expect([...(made.database.disk.get('tally')?.keys() ?? [])]).toEqual(['a'])
  })

  test('one that throws stops the host', async () => {
    const { bear, clock, fatal, log } = stage({
      beforeCommit: () => {
        throw new Error('undecided')
      },
    })
    bear('a')
    await clock.turn()
    expect(fatal).toEqual(['undecided'])
    expect(log.lines.map(({ message }) => message)).toContain('the step before a commit threw')
  })
})

describe('the watch', () => {
  const watched = (options: Options = {}) => {
    const seen: string[] = []
    const n = (snapshot: StateChange['after'] | undefined) =>
      (snapshot?.context as TallyContext | undefined)?.n
    const watch = ({ key, before, after, over, restored }: StateChange) =>
      void seen.push(
        `${key} ${n(before) ?? 'nothing'} → ${n(after)}${over ? ' over' : ''}${restored ? ' restored' : ''}`,
      )
    return { ...stage({ ...options, onStateChange: watch }), seen }
  }

  test('sees births, changes and ends in the tick of their transition, and no failed one', () => {
    const { bear, tell, seen } = watched()
    bear('a')
    tell('a', { type: 'add' })
    tell('a', { type: 'boom' })
    bear('b')
    tell('b', { type: 'end' })
    expect(seen).toEqual(['a nothing → 0', 'a 0 → 1', 'b nothing → 0', 'b 0 → 0 over'])
  })

  test('an event that changes nothing is no change', () => {
    const { bear, tell, seen } = watched()
    bear('a')
    tell('a', { type: 'forget' })
    expect(seen).toEqual(['a nothing → 0'])
  })

  test('sees what was restored, all of it before anything that follows from it', async () => {
    const first = stage()
    first.bear('a')
    first.bear('b')
    first.tell('b', { type: 'add' })
    await first.flush()
    const { system, seen } = watched({ database: first.database, clock: first.clock })
    system.restore()
    expect(seen).toEqual(['a nothing → 0 restored', 'b nothing → 1 restored'])
  })

  test('a life that was given up is over, with its last good state', async () => {
    const { bear, tell, clock, seen } = watched({ kind: tallyKind({ restartAfterMs: [] }) })
    bear('a')
    tell('a', { type: 'add' })
    tell('a', { type: 'boom' })
    await clock.turn()
    expect(seen).toEqual(['a nothing → 0', 'a 0 → 1', 'a 1 → 1 over'])
  })

  test('one that throws stops the host: what is known of the lives would not be what they are', () => {
    const { bear, fatal } = stage({
      onStateChange: () => {
        throw new Error('blind')
      },
    })
    bear('a')
    expect(fatal).toEqual(['blind'])
  })
})

describe('afterwards', () => {
  const last: TallyEffect = { type: 'tally.ended', name: 'afterwards' }

  test('runs once everything before it is on disk', async () => {
    const { system, bear, tell, told, database, clock } = stage()
    bear('a')
    await clock.turn()
    tell('a', { type: 'add' })
    system.runAfterCommit(last)
    database.flush()
    await clock.turn()
    expect(told).toEqual(['a=0'])
    expect(database.inFlight).toBe(1)
    database.flush()
    await clock.turn()
    expect(told).toEqual(['a=0', 'a=1', 'tally.ended afterwards'])
  })

  test('runs at the end of the turn when there is nothing to wait for', async () => {
    const { system, told, clock, database } = stage()
    system.runAfterCommit(last)
    expect(told).toEqual([])
    await clock.turn()
    expect(told).toEqual(['tally.ended afterwards'])
    expect(database.commits).toBe(0)
  })
})
