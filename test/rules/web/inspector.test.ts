/** The rules of the inspector's page: what it knows of actors, time travel, causes, the sequence, the marks of a chart. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import type {
  InspectedActor,
  InspectFrame,
  InspectionRecord,
  StoryLine,
} from '../../../protocol/inspection.ts'
import { actorRows, findActors, relatedActors } from '../../../web/inspector/actor-rows.ts'
import {
  countFields,
  detailOf,
  filterRecords,
  markOf,
  senderOf,
  surroundingsOf,
  titleOf,
  verdictOn,
} from '../../../web/inspector/causes.ts'
import type { MachineChart } from '../../../web/inspector/charts.ts'
import { arrowsAround, exitsOf, marksOf } from '../../../web/inspector/charts.ts'
import {
  actorsAt,
  actorToOpen,
  applyFrame,
  createModel,
  KEPT_RECORDS_MAX,
  modelOfStory,
  momentOf,
} from '../../../web/inspector/model.ts'
import { sequenceOf } from '../../../web/inspector/sequence.ts'

const actor = (id: string, state = 'queued', owners: Partial<InspectedActor> = {}): InspectedActor => {
  const [kind = '', key = ''] = id.split('/')
  return { id, kind, key, state, ...owners }
}
const RUN = actor('run/r-1', 'queued', { run: 'r-1', ticket: 't-1' })
const LEASE = actor('lease/l-1', 'offered', { run: 'r-1', lease: 'l-1', worker: 'w-1' })
const WORKER = actor('worker/w-1', 'active', { worker: 'w-1' })
const CONNECTION = actor('connection/c1', 'registered', { worker: 'w-1' })
const OTHERS = [
  actor('run/r-2', 'queued', { run: 'r-2' }),
  actor('lease/l-2', 'held', { run: 'r-2', lease: 'l-2', worker: 'w-1' }),
]

const happened = (n: number, fields: Partial<InspectionRecord>): InspectionRecord => ({
  n,
  at: 1_000 + n,
  actor: RUN.id,
  is: 'event',
  name: '',
  ...fields,
})
/** A run as it goes, of which the page hears first after the third record. */
const RECORDS = [
  happened(1, {
    name: 'granted',
    before: 'queued',
    after: 'queued',
    context: { attempt: 1, leaseId: 'l-1' },
  }),
  happened(2, { is: 'deadline', name: 'expiry', due: 9_000 }),
  happened(3, { name: 'accepted', before: 'queued', after: 'preparing', context: { startedAt: 'x' } }),
  happened(4, {
    name: 'patched',
    before: 'preparing',
    after: 'running',
    context: { attempt: 2, leaseId: null },
  }),
  happened(5, { name: 'deadline.expiry', before: 'running', after: 'running' }),
  happened(6, { is: 'ended' }),
]
const DETAIL = {
  actor: { ...RUN, state: 'preparing' },
  context: { attempt: 1, leaseId: 'l-1', startedAt: 'x', kept: true },
  hidden: 0,
  deadlines: { expiry: 9_000, older: 7_000 },
}

function watched(): ReturnType<typeof createModel> {
  const model = createModel()
  const frames: InspectFrame[] = [
    { type: 'inspect-hello', version: '1', now: 0, actors: 2 },
    { type: 'inspect-actors', changed: [RUN, WORKER], gone: [], complete: true },
    { type: 'inspect-detail', detail: DETAIL, recent: RECORDS.slice(0, 3) },
    { type: 'inspect-records', records: RECORDS.slice(3), lost: 4 },
    { type: 'inspect-actors', changed: [{ ...WORKER, state: 'draining' }], gone: [RUN.id] },
  ]
  for (const frame of frames) applyFrame(model, frame)
  return model
}

describe('the model', () => {
  test('follows the frames, keeps the history of an actor that has ended, and counts what is lost', () => {
    const model = watched()
    expect([...model.actors.values()]).toEqual([{ ...WORKER, state: 'draining' }])
    expect(model.histories.get(RUN.id)?.records.map(({ n }) => n)).toEqual([1, 2, 3, 4, 5, 6])
    expect([model.lost, model.lastN, model.isComplete]).toEqual([4, 6, true])
    applyFrame(model, { type: 'inspect-hello', version: '1', now: 0, actors: 0 })
    expect([model.actors.size, model.histories.size, model.lost]).toEqual([0, 0, 0])
  })

  test('keeps a bounded number of records', () => {
    const model = createModel()
    const many = Array.from({ length: KEPT_RECORDS_MAX + 1 }, (_, n) => happened(n + 1, { name: 'x' }))
    applyFrame(model, { type: 'inspect-records', records: many })
    const records = model.histories.get(RUN.id)?.records ?? []
    expect([records.length, records.at(-1)?.n]).toEqual([KEPT_RECORDS_MAX * 0.9 + 1, KEPT_RECORDS_MAX + 1])
  })

  test('is filled by a story, with the actors that came later', () => {
    const lines: StoryLine[] = [
      { story: 1, at: 0, version: '1', source: 'simulation', title: 'seed 7' },
      DETAIL,
      ...RECORDS.slice(3),
      happened(7, {
        actor: 'lease/l-9',
        is: 'created',
        after: 'offered',
        context: { runId: 'r-1', workerId: 'w-1' },
      }),
      { end: 9, records: 4, lost: 2 },
    ]
    const model = modelOfStory(lines)
    expect(model.actors.get('lease/l-9')).toMatchObject({
      state: 'offered',
      run: 'r-1',
      lease: 'l-9',
      worker: 'w-1',
    })
    expect([model.lastN, model.lost, model.histories.get(RUN.id)?.baseN]).toEqual([7, 2, 0])
  })
})

describe('an actor at an instant', () => {
  const history = watched().histories.get(RUN.id)
  if (history === undefined) throw new Error('no history')

  test.each([
    [0, 'queued', { kept: true }, { older: 7_000 }, false],
    [1, 'queued', { kept: true, attempt: 1, leaseId: 'l-1' }, { older: 7_000 }, false],
    [2, 'queued', { kept: true, attempt: 1, leaseId: 'l-1' }, { older: 7_000, expiry: 9_000 }, false],
    [3, 'preparing', DETAIL.context, DETAIL.deadlines, false],
    [4, 'running', { kept: true, attempt: 2, startedAt: 'x' }, DETAIL.deadlines, false],
    [5, 'running', { kept: true, attempt: 2, startedAt: 'x' }, { older: 7_000 }, false],
    [undefined, 'running', { kept: true, attempt: 2, startedAt: 'x' }, { older: 7_000 }, true],
  ])('after record %s it is %s', (n, state, context, deadlines, isOver) => {
    expect(momentOf(history, n)).toMatchObject({ state, isOver })
    expect(momentOf(history, n).context).toEqual(context)
    expect(momentOf(history, n).deadlines).toEqual(deadlines)
  })

  test('names the record that led to its state', () => {
    expect([momentOf(history, 3).entered?.n, momentOf(history, 2).entered?.n]).toEqual([3, undefined])
  })
})

describe('the actors of a story', () => {
  const spawned = happened(4, { actor: 'lease/l-9', is: 'created', after: 'offered' })
  const model = modelOfStory([
    { story: 1, at: 0, version: '1', source: 'host', title: '' },
    { ...DETAIL, actor: RUN },
    { ...DETAIL, actor: WORKER },
    ...RECORDS.slice(0, 3),
    spawned,
    { ...spawned, n: 5, is: 'event', before: 'offered', after: 'held' },
    happened(6, { actor: spawned.actor, is: 'ended' }),
  ])
  const states = (n: number) => actorsAt(model, n).map(({ key, state }) => `${key} ${state}`)

  test.each([
    [0, ['r-1 queued', 'w-1 active']],
    [3, ['r-1 preparing', 'w-1 active']],
    [4, ['r-1 preparing', 'w-1 active', 'l-9 offered']],
    [6, ['r-1 preparing', 'w-1 active', 'l-9 held']],
  ])('after record %s have the states of then, and those to come are absent', (n, expected) => {
    expect(states(n)).toEqual(expected)
  })

  test('are opened at the run to which something happened last', () => {
    const model = modelOfStory([
      { ...DETAIL, actor: RUN },
      { ...DETAIL, actor: actor('run/r-2', 'queued', { run: 'r-2' }) },
      happened(1, { actor: 'run/r-2' }),
      happened(2, {}),
      happened(3, { actor: WORKER.id }),
    ])
    expect(actorToOpen(model)?.id).toBe(RUN.id)
  })

  test.each([
    ['the newest run that goes on, when nothing is recorded yet', ['running', 'running', 'queued'], 'run/1'],
    ['the newest run, when all wait', ['queued', 'queued'], 'run/1'],
    ['the root, when there is no run', [], 'root/root'],
  ])('a host is opened at %s', (_, states, id) => {
    const model = createModel()
    const runs = states.map((state, n) => actor(`run/${n}`, state))
    const changed = [actor('root/root', 'serving'), ...runs, WORKER]
    applyFrame(model, { type: 'inspect-actors', changed, gone: [], complete: true })
    expect(actorToOpen(model)?.id).toBe(id)
  })
})

test('a context says how many of its fields are shown', () => {
  const context = { attempt: 1, title: '(text, 9 characters)' }
  expect(countFields(context, 0)).toEqual({ shown: 1, all: 2 })
  expect(countFields(context, 3)).toEqual({ shown: 1, all: 4 })
})

describe('the list of actors', () => {
  const all = [RUN, LEASE, WORKER, CONNECTION, ...OTHERS]

  test('finds actors by any of their names, in any order', () => {
    const found = (search: string) => findActors(all, search).map(({ id }) => id)
    expect(found('w-1 HELD')).toEqual(['lease/l-2'])
    expect(found('t-1')).toEqual(['run/r-1'])
    expect(found('')).toHaveLength(all.length)
  })

  test('groups them, with what belongs to none at the end', () => {
    const text = (by: 'kind' | 'worker') =>
      actorRows(all, by).map((row) => (row.is === 'group' ? `${row.name} ${row.count}` : row.actor.key))
    expect(text('kind')).toEqual([
      ...['run 2', 'r-1', 'r-2', 'lease 2', 'l-1', 'l-2', 'worker 1', 'w-1', 'connection 1', 'c1'],
    ])
    expect(text('worker').filter((row) => row.includes(' '))).toEqual(['w-1 4', 'of no worker 2'])
  })

  test('puts what works for a ticket under it, the newest ticket first, and the rest apart', () => {
    const second = [
      actor('execution/l-2', 'working', { lease: 'l-2', worker: 'w-1' }),
      actor('lease/l-2', 'held', { run: 'r-2', lease: 'l-2' }),
      actor('run/r-2', 'running', { run: 'r-2', ticket: 'ENG-2' }),
    ]
    const rows = actorRows([WORKER, RUN, LEASE, CONNECTION, ...second], 'ticket')
    expect(rows.map((row) => (row.is === 'group' ? row.name : row.actor.id))).toEqual([
      ...['ENG-2', 'run/r-2', 'lease/l-2', 'execution/l-2'],
      ...['t-1', 'run/r-1', 'lease/l-1'],
      ...['system', 'connection/c1', 'worker/w-1'],
    ])
  })

  test('knows which actors stand around one', () => {
    const around = (chosen: InspectedActor, max = 8) => relatedActors(all, chosen, max).map(({ id }) => id)
    expect(around(RUN)).toEqual(['run/r-1', 'lease/l-1', 'connection/c1', 'worker/w-1'])
    expect(around(LEASE)).toEqual(['run/r-1', 'lease/l-1', 'connection/c1', 'worker/w-1'])
    expect(around(WORKER, 2)).toContain('worker/w-1')
  })
})

describe('events', () => {
  test('are marked and titled by what they are', () => {
    const rows = [
      ...RECORDS,
      happened(7, { is: 'effect', name: 'lease.dispatch', fields: { leaseId: 'l-1' } }),
    ]
    expect(rows.map((record) => `${markOf(record)} ${titleOf(record)}`)).toEqual([
      '→ granted',
      '◷ sets expiry',
      '◆ queued → preparing on accepted',
      '◆ preparing → running on patched',
      '→ deadline.expiry',
      '◆ ended',
      '↗ lease.dispatch',
    ])
    expect(markOf(happened(8, { from: { is: 'frame', name: 'run-patch' } }))).toBe('⇢')
    expect(detailOf({ ...happened(9, { from: { is: 'actor', name: LEASE.id } }), fields: { seq: 3 } })).toBe(
      'from lease/l-1, seq 3',
    )
  })

  test('name their sender, whatever it is', () => {
    const from = (is: NonNullable<InspectionRecord['from']>['is'], name = '') =>
      senderOf(happened(1, { from: { is, name } }))
    expect([from('actor', LEASE.id), from('actor', RUN.id), from('module'), from('restore')]).toEqual([
      ...['lease/l-1', 'itself', 'the host', 'the restart'],
    ])
    expect([from('frame', 'run-patch'), from('deadline', 'expiry'), from('request', 'cancelRun')]).toEqual([
      ...['frame run-patch', 'deadline expiry', 'request cancelRun'],
    ])
  })

  test('say why they are ignored', () => {
    const verdict = (fields: Partial<InspectionRecord>) =>
      verdictOn(happened(1, { name: 'retry', before: 'held.open', ...fields }))
    const refused = [
      { name: 'isFull', holds: false },
      { name: 'isOld', holds: false },
    ]
    expect(verdict({ ignored: true })).toBe('ignored because nothing in held.open takes it')
    expect(verdict({ ignored: true, guards: refused.slice(1) })).toBe('ignored because isOld does not hold')
    expect(verdict({ ignored: true, guards: refused })).toBe('ignored because isFull, isOld do not hold')
    expect(verdict({ guards: [...refused.slice(1), { name: 'isNew', holds: true }] })).toBe(
      'because isNew holds',
    )
    expect(verdict({ guards: refused.slice(1) })).toBe('')
  })

  test('can be filtered to changes of state, and to what is done', () => {
    const numbers = (filter: 'all' | 'state' | 'effects') => filterRecords(RECORDS, filter).map(({ n }) => n)
    expect([numbers('all').length, numbers('state'), numbers('effects')]).toEqual([6, [3, 4, 6], [2]])
  })

  test('have a cause and effects', () => {
    const records = [
      happened(1, {}),
      happened(2, { cause: 1 }),
      happened(3, { cause: 2 }),
      happened(4, { cause: 2 }),
    ]
    expect(surroundingsOf(records, 2)).toEqual({ cause: 1, effects: new Set([3, 4]) })
    expect(surroundingsOf(records, undefined)).toEqual({ cause: undefined, effects: new Set() })
  })
})

test('the sequence has a row for each message, and a bar while a state lasts', () => {
  const model = watched()
  const records = [
    happened(4, {
      actor: LEASE.id,
      name: 'accepted',
      before: 'offered',
      after: 'held',
      from: { is: 'frame', name: 'x' },
    }),
    happened(5, { actor: LEASE.id, is: 'effect', name: 'hidden' }),
    happened(7, {
      actor: LEASE.id,
      name: 'granted',
      before: 'held',
      after: 'held',
      from: { is: 'actor', name: RUN.id },
    }),
  ]
  applyFrame(model, { type: 'inspect-records', records })
  const { rows, spans } = sequenceOf([RUN.id, LEASE.id], model.histories)
  expect(rows.map(({ record, from, to }) => [record.n, from, to])).toEqual([
    [1, undefined, 0],
    [3, undefined, 0],
    [4, undefined, 0],
    [4, -1, 1],
    [5, undefined, 0],
    [6, undefined, 0],
    [7, 0, 1],
  ])
  expect(spans).toEqual([
    { lane: 0, state: 'queued', fromRow: 0, toRow: 1 },
    { lane: 0, state: 'preparing', fromRow: 1, toRow: 2 },
    { lane: 0, state: 'running', fromRow: 2, toRow: 5 },
    { lane: 1, state: 'offered', fromRow: 0, toRow: 3 },
    { lane: 1, state: 'held', fromRow: 3, toRow: 7 },
  ])
})

test('an arrow begins at the actor whose effect sent the event', () => {
  const model = createModel()
  const records = [
    happened(1, { name: 'granted' }),
    happened(2, { is: 'effect', name: 'lease.dispatch', cause: 1 }),
    happened(3, { actor: LEASE.id, name: 'sent', from: { is: 'effect', name: 'lease.dispatch' }, cause: 2 }),
  ]
  applyFrame(model, { type: 'inspect-records', records })
  const { rows } = sequenceOf([RUN.id, LEASE.id], model.histories)
  expect(rows.map(({ record, from, to }) => [record.n, from, to])).toEqual([
    [1, undefined, 0],
    [3, 0, 1],
  ])
})

describe('the marks of a chart', () => {
  const charts = JSON.parse(readFileSync('docs/machines/charts.json', 'utf8')) as Record<string, MachineChart>
  const chartOf = (kind: string): MachineChart => {
    const chart = charts[kind]
    if (chart === undefined) throw new Error(`no chart of ${kind}`)
    return chart
  }

  test('are the active state, the states around it and the last arrow', () => {
    expect(
      marksOf(chartOf('run'), 'running', {
        before: 'preparing',
        after: 'running',
        name: 'patched to running',
      }),
    ).toEqual({
      active: 'n:running',
      around: [],
      arrow: 'e:preparing>running',
    })
    const nested = marksOf(chartOf('tracker'), 'connected.valid', { after: 'connected.valid', name: '' })
    expect(nested).toEqual({
      active: 'n:connected.valid',
      around: ['n:connected'],
      arrow: 'e:start>connected',
    })
  })

  test('are the arrows of the chosen event, of its cause and of its effects', () => {
    const around = (chosen: number, cause: number, effects: number[]) => [
      ...arrowsAround(chartOf('run'), RECORDS, chosen, { cause, effects: new Set(effects) }),
    ]
    expect(around(3, 1, [])).toEqual(['e:queued>preparing'])
    const moved = { ...happened(9, { before: 'preparing', after: 'running' }), name: 'patched to running' }
    expect([
      ...arrowsAround(chartOf('run'), [...RECORDS, moved], 2, { cause: 3, effects: new Set([9]) }),
    ]).toEqual(['e:queued>preparing', 'e:preparing>running'])
  })

  test('name an arrow from any state as the chart does', () => {
    const last = { before: 'waiting', after: 'idle', name: 'paused' }
    expect(marksOf(chartOf('intake'), 'idle', last).arrow).toBe('e:>idle')
  })

  test('every arrow that can be marked is drawn', () => {
    for (const { svg, arrows } of Object.values(charts))
      for (const { from, to } of arrows) {
        const isDrawn = from !== to && to !== ''
        if (isDrawn) expect([svg.split(`id="e:${from}&gt;${to}"`).length, from, to]).toEqual([2, from, to])
      }
  })

  test('beside them stands where the state can be left to', () => {
    expect(exitsOf(chartOf('intake'), 'waiting')).toEqual([
      { to: 'polling', events: ['resumed', 'tracker changed', 'interval passed'] },
      { to: 'idle', events: ['paused'] },
    ])
  })
})
