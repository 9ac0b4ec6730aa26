/** A viewer of actors receives all actors, the records of those it follows, and the cause of each. */
import { describe, expect, test } from '@jest/globals'
import { Inspection } from '../../../actors/inspection/inspection.ts'
import { INSPECT_QUEUED_MAX } from '../../../actors/inspection/inspection-viewer.ts'
import { ActorSystem } from '../../../actors/runtime/actor-system.ts'
import type { Effect } from '../../../actors/runtime/transition-output.ts'
import {
  type InspectFrame,
  InspectFrame as InspectFrameSchema,
  type InspectionRecord,
} from '../../../protocol/inspection.ts'
import {
  INSPECT_ACTOR_FRAME_MAX,
  INSPECT_BACKLOG_BYTES_MAX,
  INSPECT_COLLECT_MS,
  INSPECT_RECENT_MAX,
  INSPECT_VIEWERS_MAX,
} from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { TALLY, type TallyEffect, type TallyEvent, tallyKind } from '../../support/counter-actor.ts'
import { CrashDatabase } from '../../support/crash-database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'

const checkFrame = createChecker(InspectFrameSchema)

function open(onEffect: (effect: Effect) => void = () => {}, database = new CrashDatabase()) {
  const clock = new ManualClock()
  const system = new ActorSystem({
    clock,
    database,
    log: createRecordingLog(),
    meters: noMeters,
    kinds: [tallyKind()],
    modules: () => ({ runEffect: onEffect }),
    onFatal: () => {},
  })
  const inspection = new Inspection({ clock, system, version: '1.2.3', publish: () => {} })
  const settle = async () => {
    await clock.settle()
    while (database.inFlight > 0) {
      database.flush()
      await clock.settle()
    }
    await clock.advance(INSPECT_COLLECT_MS)
  }
  return {
    clock,
    system,
    inspection,
    settle,
    spawn: (key: string) => system.spawn(TALLY, key, { name: key }),
    send: (key: string, event: TallyEvent) => system.send(TALLY, key, event),
  }
}

function watch(inspection: Inspection, backlog: () => number = () => 0) {
  const frames: InspectFrame[] = []
  const opened = inspection.open({
    send(frame) {
      expect(checkFrame(frame)).toMatchObject({ ok: true })
      frames.push(frame)
    },
    backlog,
  })
  if (!opened.ok) throw new Error(opened.refusal.message)
  const session = opened.value
  const take = <T extends InspectFrame['type']>(type: T) =>
    frames.filter((frame): frame is Extract<InspectFrame, { type: T }> => frame.type === type)
  return {
    session,
    frames,
    take,
    follow: (...actors: string[]) => session.follow({ type: 'inspect-follow', actors }),
    records: () => take('inspect-records').flatMap(({ records }) => records),
  }
}

const short = ({ actor, is, name, from, before, after }: InspectionRecord): string =>
  [
    actor,
    is,
    name,
    ...(from === undefined ? [] : [`from ${from.is} ${from.name}`.trim()]),
    ...(after === undefined ? [] : [`${before ?? '-'}>${after}`]),
  ]
    .filter((word) => word !== '')
    .join(' ')

describe('a viewer', () => {
  test('first receives every actor, later only those that change or go', async () => {
    const { inspection, spawn, send, settle } = open()
    for (const key of ['a', 'b']) spawn(key)
    await settle()
    const { frames, take } = watch(inspection)
    expect(frames[0]).toMatchObject({ type: 'inspect-hello', version: '1.2.3', actors: 2 })
    expect(take('inspect-actors')).toMatchObject([
      { changed: [{ id: 'tally/a', state: 'awake' }, { id: 'tally/b' }], gone: [], complete: true },
    ])
    send('a', { type: 'rest' })
    send('b', { type: 'end' })
    spawn('c')
    await settle()
    expect(take('inspect-actors').at(-1)).toMatchObject({
      changed: [
        { id: 'tally/a', state: 'resting.lightly' },
        { id: 'tally/c', state: 'awake' },
      ],
      gone: ['tally/b'],
    })
  })

  test('receives many actors in frames of a limited size', () => {
    const { inspection, spawn } = open()
    for (let n = 0; n < INSPECT_ACTOR_FRAME_MAX + 1; n++) spawn(`a${n}`)
    const { take } = watch(inspection)
    expect(take('inspect-actors').map(({ changed, complete }) => [changed.length, complete])).toEqual([
      [INSPECT_ACTOR_FRAME_MAX, undefined],
      [1, true],
    ])
  })

  test('receives the records of the actors that it follows, with what it needs to go back in time', async () => {
    const { inspection, spawn, send, settle, clock } = open()
    for (const key of ['a', 'b']) spawn(key)
    await settle()
    const viewer = watch(inspection)
    viewer.follow('tally/a', 'tally/unknown')
    expect(viewer.take('inspect-detail')).toEqual([
      {
        type: 'inspect-detail',
        detail: {
          actor: { id: 'tally/a', kind: 'tally', key: 'a', state: 'awake' },
          context: { name: '(text, 1 character)', n: 0 },
          hidden: 1,
          deadlines: {},
        },
        recent: [],
      },
    ])
    send('b', { type: 'add' })
    send('a', { type: 'wait', until: clock.now() + 5_000 })
    await settle()
    expect(viewer.records()).toMatchObject([
      { actor: 'tally/a', is: 'event', name: 'wait', before: 'awake', after: 'napping' },
      { actor: 'tally/a', is: 'deadline', name: 'nap', due: clock.now() + 5_000 - INSPECT_COLLECT_MS },
    ])
    await clock.advance(6_000)
    const [wokenAt] = viewer.records().filter(({ name }) => name === 'deadline.nap')
    expect(wokenAt).toMatchObject({
      from: { is: 'deadline', name: 'nap' },
      context: { n: 1 },
      after: 'awake',
    })
    expect(wokenAt?.cause).toBe(viewer.records()[1]?.n)
  })

  test('sees which events no transition took', async () => {
    const { inspection, spawn, send, settle } = open()
    spawn('a')
    await settle()
    const viewer = watch(inspection)
    viewer.follow('tally/a')
    for (const type of ['forget', 'add'] as const) send('a', { type })
    await settle()
    const events = viewer.records().filter(({ is }) => is === 'event')
    expect(events.map(({ name, ignored }) => [name, ignored])).toEqual([
      ['forget', true],
      ['add', undefined],
    ])
  })

  test('sees each cause: who sent an event, which transition recorded an effect, and what the effect led to', async () => {
    const parts = open((effect) => {
      const { type, name, n } = effect as TallyEffect & { n: number }
      if (type === 'tally.counted' && name === 'b' && n === 1) parts.send('c', { type: 'add' })
    })
    const { inspection, system, spawn, send, settle } = parts
    for (const key of ['a', 'b', 'c']) spawn(key)
    await settle()
    const viewer = watch(inspection)
    viewer.session.follow({ type: 'inspect-follow', actors: [], all: true })
    system.attribute('request', 'cancelRun', () => send('a', { type: 'pass', to: 'b' }))
    await settle()
    const records = viewer.records()
    expect(records.map(short)).toEqual([
      'tally/a event pass from request cancelRun awake>awake',
      'tally/a effect tally.counted from actor tally/a',
      'tally/b event add from actor tally/a awake>awake',
      'tally/b effect tally.counted from actor tally/b',
      'tally/c event add from effect tally.counted awake>awake',
      'tally/c effect tally.counted from actor tally/c',
    ])
    const first = records[0]?.n ?? 0
    expect(records.map(({ n }) => n - first)).toEqual([0, 1, 2, 3, 4, 5])
    expect(records.map(({ cause }) => cause && cause - first)).toEqual([undefined, 0, 0, 2, 3, 4])
  })

  test('sees crashes, restarts, spawns and ends', async () => {
    const { inspection, spawn, send, settle, clock } = open()
    spawn('a')
    await settle()
    const viewer = watch(inspection)
    viewer.session.follow({ type: 'inspect-follow', actors: [], all: true })
    send('a', { type: 'spawn', name: 'b' })
    send('a', { type: 'boom' })
    await clock.advance(1_000)
    send('b', { type: 'end' })
    await settle()
    const comings = viewer.records().filter(({ is }) => !['event', 'effect'].includes(is))
    expect(comings.map(short)).toEqual([
      'tally/b created from actor tally/a ->awake',
      'tally/a crash boom from module',
      'tally/a restarted from module',
      'tally/a crash boom from module',
      'tally/b ended from actor tally/b',
    ])
  })

  test('that follows an actor later receives what is remembered of it', async () => {
    const { inspection, spawn, send, settle } = open()
    spawn('a')
    await settle()
    const { session } = watch(inspection)
    for (let n = 0; n < INSPECT_RECENT_MAX; n++) send('a', { type: 'add' })
    const later = watch(inspection)
    later.follow('tally/a')
    const [detail] = later.take('inspect-detail')
    // Each transition has an effect.
    expect(detail?.recent).toHaveLength(INSPECT_RECENT_MAX)
    expect(detail?.recent.at(-1)).toMatchObject({ is: 'effect', n: 2 * INSPECT_RECENT_MAX })
    expect(detail?.detail.context).toMatchObject({ n: INSPECT_RECENT_MAX })
    later.follow('tally/a')
    expect(later.take('inspect-detail')).toHaveLength(1)
    session.close()
  })

  test('that reads too slowly loses records, and hears how many', async () => {
    const { inspection, spawn, send, settle } = open()
    spawn('a')
    await settle()
    let backlog = 0
    const viewer = watch(inspection, () => backlog)
    viewer.follow('tally/a')
    backlog = INSPECT_BACKLOG_BYTES_MAX + 1
    const sent = INSPECT_QUEUED_MAX / 2 + 1
    for (let n = 0; n < sent; n++) send('a', { type: 'add' })
    await settle()
    expect(viewer.records()).toEqual([])
    backlog = 0
    viewer.session.onDrained()
    await settle()
    expect(viewer.take('inspect-records')).toMatchObject([
      { lost: INSPECT_QUEUED_MAX, records: { length: 2 } },
    ])
  })

  test('that records a story receives the detail of every actor first', () => {
    const { inspection, spawn } = open()
    for (const key of ['a', 'b']) spawn(key)
    const viewer = watch(inspection)
    viewer.session.follow({ type: 'inspect-follow', actors: [], all: true, details: true })
    expect(viewer.take('inspect-detail').map(({ detail }) => detail.actor.id)).toEqual(['tally/a', 'tally/b'])
  })
})

test('nothing is observed while nobody watches, and only so many may watch', async () => {
  const { inspection, clock, settle, spawn } = open()
  spawn('a')
  await settle()
  const viewers = Array.from({ length: INSPECT_VIEWERS_MAX }, () => watch(inspection))
  expect(() => watch(inspection)).toThrow(/watch already/)
  for (const { session } of viewers) session.close()
  expect([inspection.viewerCount, clock.timers]).toEqual([0, 0])
  spawn('b')
  await settle()
  expect(viewers[0]?.frames).toHaveLength(2)
  expect(watch(inspection).take('inspect-actors')[0]?.changed).toHaveLength(2)
})

test('actors that a restart restores say so', async () => {
  const database = new CrashDatabase()
  const before = open(undefined, database)
  before.spawn('a')
  await before.settle()
  const { inspection, system, settle } = open(undefined, database)
  const viewer = watch(inspection)
  viewer.session.follow({ type: 'inspect-follow', actors: [], all: true })
  system.restore()
  await settle()
  expect(viewer.records().map(short)).toEqual(['tally/a restored from restore ->awake'])
})
