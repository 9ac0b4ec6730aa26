/**
 * Thousands of random crash schedules: at whichever point the process dies, no effect runs before its cause is on disk.
 */
import { expect, test } from '@jest/globals'
import { ActorSystem, type SystemModules } from '../../../actors/runtime/actor-system.ts'
import type { CommitParticipant } from '../../../actors/runtime/commit-loop.ts'
import type { Effect } from '../../../actors/runtime/transition-output.ts'
import {
  TALLY,
  type TallyContext,
  type TallyEffect,
  type TallyEvent,
  tallyKind,
} from '../../support/counter-actor.ts'
import { CrashDatabase } from '../../support/crash-database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { Random, seedFromEnvironment } from '../../support/random.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'

const SCHEDULES = Number(process.env.CRASH_SCHEDULES ?? 1_000)

interface CrashSchedule {
  readonly random: Random
  readonly clock: ManualClock
  readonly database: CrashDatabase
  readonly violations: string[]
  /** Keys that receive events. The key of an ended actor is never used again: an end must differ from a respawn. */
  keys: string[]
  readonly retired: Set<string>
  /** Keys that an action will spawn. The action may wait in an actor that recovers. */
  requestedKeys: string[]
  kill: () => void
  effects: number
  crashes: number
}

/** Checks the write-ahead rule without knowledge of the runtime: reads the disk when the effect runs. */
function checkEffect(schedule: CrashSchedule, effect: TallyEffect): void {
  schedule.effects++
  if (effect.type === 'tally.discarded')
    schedule.violations.push(`effect of a transition that threw: ${effect.name}`)
  const record = schedule.database.snapshotTable.get('tally')?.get(effect.name)
  const n = (record?.c as TallyContext | undefined)?.n ?? -1
  if (effect.type === 'tally.ended' && record !== undefined)
    schedule.violations.push(`${effect.name} was published as ended, but is still on disk`)
  // An actor that counted and ended within one commit rightly has nothing on disk.
  const over = record === undefined && schedule.retired.has(effect.name)
  if (effect.type === 'tally.counted' && n < effect.n && !over) {
    schedule.violations.push(`${effect.name} was published with ${effect.n}, but ${n} is on disk`)
  }
}

/** Counts commits and checks that each count is on disk when `onCommitted` is called. */
function createCommitCounter(schedule: CrashSchedule): CommitParticipant {
  let count =
    (schedule.database.keyValueTable.get('memory')?.get('commits') as { n: number } | undefined)?.n ?? 0
  return {
    contribute: () => {
      const n = ++count
      return {
        writes: [{ table: 'key-value', collection: 'memory', key: 'commits', value: { n } }],
        onCommitted: () => {
          const stored =
            (schedule.database.keyValueTable.get('memory')?.get('commits') as { n: number } | undefined)?.n ??
            0
          if (stored < n) schedule.violations.push(`commit ${n} was acknowledged, but ${stored} is on disk`)
        },
      }
    },
  }
}

function startSystem(schedule: CrashSchedule): ActorSystem {
  let alive = true
  const modules: SystemModules = {
    runEffect: (effect: Effect) => alive && checkEffect(schedule, effect as TallyEffect),
    // Now and then `beforeCommit` sends an event, too.
    beforeCommit() {
      if (alive && schedule.random.chance(0.2))
        system.send(TALLY, schedule.random.pick(schedule.keys), { type: 'add' })
    },
    participants: [createCommitCounter(schedule)],
  }
  const system: ActorSystem = new ActorSystem({
    // The ports of one process: they do nothing after its crash, so that nothing of the old process runs again.
    clock: {
      now: schedule.clock.now,
      monotonic: schedule.clock.monotonic,
      after: (ms, run) => schedule.clock.after(ms, () => alive && run()),
      endOfTick: (run) => schedule.clock.endOfTick(() => alive && run()),
    },
    database: schedule.database,
    log: createRecordingLog(),
    meters: noMeters,
    kinds: [tallyKind({ crashesMax: 100 })],
    modules: () => modules,
    onFatal: (reason) => schedule.violations.push(`fatal: ${reason}`),
  })
  schedule.kill = () => {
    alive = false
  }
  return system
}

function randomEvent(random: Random, { clock, keys, requestedKeys: unborn }: CrashSchedule): TallyEvent {
  return random.pick<() => TallyEvent>([
    () => ({ type: 'add' }),
    () => ({ type: 'add' }),
    () => ({ type: 'pass', to: random.pick(keys) }),
    () => ({ type: 'spawn', name: newKey(unborn) }),
    () => ({ type: 'boom' }),
    () => ({ type: 'wait', until: clock.now() + random.below(5_000) }),
    () => ({ type: 'rest' }),
    () => ({ type: 'end' }),
  ])()
}

let keyCount = 0

function newKey(keys: string[]): string {
  const key = `actor-${++keyCount}`
  keys.push(key)
  return key
}

function sendRandomEvent(schedule: CrashSchedule, system: ActorSystem, random: Random): void {
  schedule.keys.push(...schedule.requestedKeys.filter((key) => system.peek(TALLY, key) !== undefined))
  schedule.requestedKeys = schedule.requestedKeys.filter((key) => !schedule.keys.includes(key))
  const key = random.pick(schedule.keys)
  const event = randomEvent(random, schedule)
  if (!system.send(TALLY, key, event)) system.spawn(TALLY, key, { name: key })
  else if (event.type === 'end') {
    schedule.retired.add(key)
    schedule.keys = schedule.keys.filter((candidate) => candidate !== key)
    if (schedule.keys.length < 4) newKey(schedule.keys)
  }
}

async function runSchedule(seed: number, faulty = false): Promise<CrashSchedule> {
  const random = new Random(seed)
  const schedule: CrashSchedule = {
    random,
    clock: new ManualClock(),
    database: new CrashDatabase(),
    violations: [],
    keys: ['a', 'b', 'c', 'd'],
    retired: new Set(),
    requestedKeys: [],
    kill: () => {},
    effects: 0,
    crashes: 0,
  }
  let system = startSystem(schedule)
  const steps = 10 + random.below(60)
  for (let step = 0; step < steps; step++) {
    if (schedule.database.inFlight > 1) schedule.violations.push('two commits are in flight')
    const die = random.fraction()
    if (die < 0.55) {
      sendRandomEvent(schedule, system, random)
    } else if (die < 0.75) {
      await schedule.clock.settle()
    } else if (die < 0.9) {
      if (faulty && random.chance(0.3)) schedule.database.acknowledgeUnwritten()
      else schedule.database.flush()
      await schedule.clock.settle()
    } else if (die < 0.95) {
      await schedule.clock.advance(random.below(3_000))
    } else {
      schedule.crashes++
      schedule.kill()
      schedule.database.crash(random.below(schedule.database.inFlight + 1))
      system = startSystem(schedule)
      const restored = system.restore()
      if (!restored.ok || restored.value.damaged.length > 0)
        schedule.violations.push('what was on disk did not come back')
      let pending = 0
      for (const [key, record] of schedule.database.snapshots.all('tally')) {
        const now = system.peek(TALLY, key)
        if (JSON.stringify(now?.context) !== JSON.stringify(record.c))
          schedule.violations.push(`${key} came back different`)
        if (record.d !== undefined) pending += Object.keys(record.d).length
      }
      if (system.pendingDeadlines() !== pending)
        schedule.violations.push('deadlines on disk did not come back')
    }
  }
  // Now every event is committed, its effects have run, and every deadline lies in the future.
  for (let i = 0; i < 50 && (schedule.database.inFlight > 0 || i < 2); i++) {
    schedule.database.flush()
    await schedule.clock.settle()
  }
  system.stop()
  return schedule
}

test(
  `${SCHEDULES} random crash schedules: no effect without its cause on disk`,
  async () => {
    const from = seedFromEnvironment(1)
    let effects = 0
    let crashes = 0
    for (let seed = from; seed < from + SCHEDULES; seed++) {
      const schedule = await runSchedule(seed)
      if (schedule.violations.length > 0) throw new Error(`SEED=${seed}: ${schedule.violations.join('; ')}`)
      effects += schedule.effects
      crashes += schedule.crashes
    }
    // The schedules must have contained crashes and effects.
    expect(effects).toBeGreaterThan(SCHEDULES)
    expect(crashes).toBeGreaterThan(SCHEDULES / 2)
  },
  60_000 + SCHEDULES * 50,
)

test('control: a disk that reports writes too early breaks the rule, and the check notices', async () => {
  let caught = 0
  for (let seed = 1; seed <= 100; seed++) if ((await runSchedule(seed, true)).violations.length > 0) caught++
  expect(caught).toBeGreaterThan(20)
})
