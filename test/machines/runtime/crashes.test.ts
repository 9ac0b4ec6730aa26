/**
 * Thousands of random crash schedules: whatever dies and whenever, no effect runs whose cause is not on disk.
 */
import { expect, test } from '@jest/globals'
import { ActorSystem } from '../../../actors/runtime/actor-system.ts'
import type { CommitParticipant } from '../../../actors/runtime/commit-loop.ts'
import type { Effect } from '../../../actors/runtime/transition-output.ts'
import {
  type TallyContext,
  type TallyEffect,
  type TallyEvent,
  tallyKind,
} from '../../support/counter-actor.ts'
import { CrashDatabase } from '../../support/crash-database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { firstSeed, Random } from '../../support/random.ts'
import { keptLog, noMeters } from '../../support/recording-log.ts'

const SCHEDULES = Number(process.env.CRASH_SCHEDULES ?? 3_000)

interface World {
  readonly random: Random
  readonly clock: ManualClock
  readonly database: CrashDatabase
  readonly broken: string[]
  /** Keys to talk to. One that was told to end is never used again, so that an end can be told from a rebirth. */
  keys: string[]
  readonly retired: Set<string>
  /** Asked for by a deed, which may be waiting in a life that recovers. */
  unborn: string[]
  kill: () => void
  effects: number
  crashes: number
}

/** The law, in code that knows nothing of how the kit keeps it: look at the disk when the effect runs. */
function check(world: World, effect: TallyEffect): void {
  world.effects++
  if (effect.type === 'tally.never') world.broken.push(`effect of a transition that threw: ${effect.name}`)
  const record = world.database.disk.get('tally')?.get(effect.name)
  const n = (record?.c as TallyContext | undefined)?.n ?? -1
  if (effect.type === 'tally.ended' && record !== undefined)
    world.broken.push(`${effect.name} told as ended, but is on disk`)
  // Told and ended within one cut: then there is rightly nothing on disk.
  const over = record === undefined && world.retired.has(effect.name)
  if (effect.type === 'tally.told' && n < effect.n && !over) {
    world.broken.push(`${effect.name} told ${effect.n}, but ${n} is on disk`)
  }
}

/** Counts its cuts; what it has heard to be on disk must be there. */
function guestOf(world: World): CommitParticipant {
  let count = (world.database.facts.get('memory')?.get('cuts') as { n: number } | undefined)?.n ?? 0
  return {
    contribute: () => {
      const n = ++count
      return {
        writes: [{ table: 'key-value', collection: 'memory', key: 'cuts', value: { n } }],
        onCommitted: () => {
          const stored =
            (world.database.facts.get('memory')?.get('cuts') as { n: number } | undefined)?.n ?? 0
          if (stored < n) world.broken.push(`cut ${n} landed, but ${stored} is on disk`)
        },
      }
    },
  }
}

function incarnation(world: World): ActorSystem {
  let alive = true
  const system: ActorSystem = new ActorSystem({
    // Handles of one incarnation: dead after its crash, so nothing of the old life runs again.
    clock: {
      now: world.clock.now,
      monotonic: world.clock.monotonic,
      after: (ms, run) => world.clock.after(ms, () => alive && run()),
      endOfTick: (run) => world.clock.endOfTick(() => alive && run()),
    },
    database: world.database,
    log: keptLog(),
    meters: noMeters,
    kinds: [tallyKind({ crashesMax: 100 })],
    runEffect: (effect: Effect) => alive && check(world, effect as TallyEffect),
    // Whoever decides right before a cut tells lives something too, now and then.
    beforeCommit: () => {
      if (alive && world.random.random(0.2))
        system.send('tally', world.random.pick(world.keys), { type: 'add' })
    },
    participants: [guestOf(world)],
    onFatal: (reason) => world.broken.push(`fatal: ${reason}`),
  })
  world.kill = () => {
    alive = false
  }
  return system
}

function randomEvent(random: Random, { clock, keys, unborn }: World): TallyEvent {
  return random.pick<() => TallyEvent>([
    () => ({ type: 'add' }),
    () => ({ type: 'add' }),
    () => ({ type: 'pass', to: random.pick(keys) }),
    () => ({ type: 'bear', name: newKey(unborn) }),
    () => ({ type: 'boom' }),
    () => ({ type: 'wait', until: clock.now() + random.below(5_000) }),
    () => ({ type: 'rest' }),
    () => ({ type: 'end' }),
  ])()
}

let births = 0

function newKey(keys: string[]): string {
  const key = `life-${++births}`
  keys.push(key)
  return key
}

function talk(world: World, system: ActorSystem, random: Random): void {
  world.keys.push(...world.unborn.filter((key) => system.peek('tally', key) !== undefined))
  world.unborn = world.unborn.filter((key) => !world.keys.includes(key))
  const key = random.pick(world.keys)
  const event = randomEvent(random, world)
  if (!system.send('tally', key, event)) system.spawn('tally', key, { name: key })
  else if (event.type === 'end') {
    world.retired.add(key)
    world.keys = world.keys.filter((other) => other !== key)
    if (world.keys.length < 4) newKey(world.keys)
  }
}

async function schedule(seed: number, faulty = false): Promise<World> {
  const random = new Random(seed)
  const world: World = {
    random,
    clock: new ManualClock(),
    database: new CrashDatabase(),
    broken: [],
    keys: ['a', 'b', 'c', 'd'],
    retired: new Set(),
    unborn: [],
    kill: () => {},
    effects: 0,
    crashes: 0,
  }
  let system = incarnation(world)
  const steps = 10 + random.below(60)
  for (let step = 0; step < steps; step++) {
    if (world.database.inFlight > 1) world.broken.push('two commits are in flight')
    const die = random.fraction()
    if (die < 0.55) {
      talk(world, system, random)
    } else if (die < 0.75) {
      await world.clock.turn()
    } else if (die < 0.9) {
      if (faulty && random.random(0.3)) world.database.lie()
      else world.database.flush()
      await world.clock.turn()
    } else if (die < 0.95) {
      await world.clock.advance(random.below(3_000))
    } else {
      world.crashes++
      world.kill()
      world.database.crash(random.below(world.database.inFlight + 1))
      system = incarnation(world)
      const restored = system.restore()
      if (!restored.ok || restored.value.damaged.length > 0)
        world.broken.push('what was on disk did not come back')
      let pending = 0
      for (const [key, record] of world.database.snapshots.all('tally')) {
        const now = system.peek('tally', key)
        if (JSON.stringify(now?.context) !== JSON.stringify(record.c))
          world.broken.push(`${key} came back different`)
        if (record.d !== undefined) pending += Object.keys(record.d).length
      }
      if (system.pendingDeadlines() !== pending) world.broken.push('deadlines on disk did not come back')
    }
  }
  // Let it finish: everything told is now committed and its effects have run, and every deadline is in the future.
  for (let i = 0; i < 50 && (world.database.inFlight > 0 || i < 2); i++) {
    world.database.flush()
    await world.clock.turn()
  }
  system.stop()
  return world
}

test(
  `${SCHEDULES} random crash schedules: no effect without its cause on disk`,
  async () => {
    const from = firstSeed(1)
    let effects = 0
    let crashes = 0
    for (let seed = from; seed < from + SCHEDULES; seed++) {
      const world = await schedule(seed)
      if (world.broken.length > 0) throw new Error(`SEED=${seed}: ${world.broken.join('; ')}`)
      effects += world.effects
      crashes += world.crashes
    }
    // The schedules must have met what they are about.
    expect(effects).toBeGreaterThan(SCHEDULES)
    expect(crashes).toBeGreaterThan(SCHEDULES / 2)
  },
  60_000 + SCHEDULES * 50,
)

test('control: a disk that says yes too early breaks the law, and the check sees it', async () => {
  let caught = 0
  for (let seed = 1; seed <= 100; seed++) if ((await schedule(seed, true)).broken.length > 0) caught++
  expect(caught).toBeGreaterThan(20)
})
