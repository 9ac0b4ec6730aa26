/** Tests of the choice of a worker for a run, and of the reason to wait. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  exclusionReason,
  type PlacementRequest,
  type WaitReason,
  type WorkerFacts,
} from '../../../core/fleet/obstacles.ts'
import { explainPlacement, lastingReason, placeRun } from '../../../core/fleet/placement.ts'
import type { JobNeeds } from '../../../core/run/job-needs.ts'
import { Placement } from '../../../protocol/explain.ts'
import { createChecker } from '../../../protocol/parse.ts'

const NOW = Date.UTC(2026, 2, 1)
const want: PlacementRequest = { runId: 'run-1' }
const BLOCKED: WaitReason = { gate: 'blockers', reason: 'waiting for ENG-11' }

const worker = (id: string, more: Partial<WorkerFacts> = {}): WorkerFacts => ({
  id,
  name: `${id}'s name`,
  state: 'active',
  online: true,
  max: 2,
  used: 0,
  ...more,
})
const placed = (workers: WorkerFacts[], wanted = want): string => {
  const found = placeRun(wanted, workers, NOW)
  return found.is === 'placed' ? found.worker : found.reason
}

const away = { online: false }
const draining = { state: 'draining' } as const
const held = { hold: 'disk' }
const paused = { pausedUntil: NOW + 30_000 }
const full = { used: 2 }
const fullDisk = { ...paused, fullDisk: 'room for 512 MiB, a run needs 1024' }

test('reasons against one worker have a fixed order', () => {
  const all = { ...away, ...draining, ...held, ...paused, ...full }
  const elsewhere: PlacementRequest = { runId: 'run-1', requiredWorker: 'wk-2' }
  const reasons = [
    all,
    { ...all, online: true },
    { ...held, ...paused, ...full },
    { ...paused, ...full },
    full,
    {},
  ].map((facts) => exclusionReason(worker('wk-1', facts), elsewhere, NOW, 'attic'))
  expect(reasons).toEqual([
    'not connected',
    'draining',
    'on hold: disk',
    'refused a dispatch; asked again at 2026-03-01T00:00:30.000Z',
    'all 2 slots taken',
    'worker attic holds the sandbox',
  ])
  expect(exclusionReason(worker('wk-1'), want, NOW)).toBeUndefined()
  expect(exclusionReason(worker('wk-1'), elsewhere, NOW)).toBe('worker wk-2 holds the sandbox')
  expect(exclusionReason(worker('wk-1', { pausedUntil: NOW }), want, NOW)).toBeUndefined()
})

describe('placed', () => {
  test('most free slots, then fewest used, then id', () => {
    expect(placed([worker('wk-1', { max: 2 }), worker('wk-2', { max: 3 })])).toBe('wk-2')
    expect(placed([worker('wk-1', { max: 3, used: 1 }), worker('wk-2')])).toBe('wk-2')
    expect(placed([worker('wk-2'), worker('wk-1')])).toBe('wk-1')
  })

  test('the preferred worker gets the run if it can take it now, and any other if not', () => {
    const preferring = { ...want, preferredWorker: 'wk-1' }
    const freer = worker('wk-2')
    expect(placed([freer, worker('wk-1', { used: 1 })], preferring)).toBe('wk-1')
    expect(placed([worker('wk-1', { used: 1 }), freer], preferring)).toBe('wk-1')
    for (const obstacle of [away, draining, held, paused, full])
      expect(placed([worker('wk-1', obstacle), freer], preferring)).toBe('wk-2')
    expect(placed([worker('wk-1', full)], preferring)).toBe('fleet at capacity')
  })

  test('a follow-up runs only on the worker with its sandbox, however free other workers are', () => {
    const workers = [worker('wk-1', { used: 1 }), worker('wk-2')]
    expect(placed(workers, { ...want, requiredWorker: 'wk-1' })).toBe('wk-1')
    expect(placed([worker('wk-1', full), worker('wk-2')], { ...want, requiredWorker: 'wk-1' })).toBe(
      "worker wk-1's name holds the sandbox",
    )
    for (const obstacle of [fullDisk, { ...fullDisk, ...held }])
      expect(placed([worker('wk-1', obstacle), worker('wk-2')], { ...want, requiredWorker: 'wk-1' })).toBe(
        "worker wk-1's name holds the sandbox, and its disk is full (room for 512 MiB, a run needs 1024)",
      )
    expect(placed([worker('wk-1', { ...fullDisk, ...away })], { ...want, requiredWorker: 'wk-1' })).toBe(
      "worker wk-1's name holds the sandbox",
    )
    expect(placed([worker('wk-2')], { ...want, requiredWorker: 'wk-9' })).toBe(
      'worker wk-9 holds the sandbox',
    )
  })
})

test('work is published again only by a worker that says it can', () => {
  const wanted = { ...want, requiredWorker: 'wk-1', publishes: true }
  expect(placed([worker('wk-1', { publishes: true })], wanted)).toBe('wk-1')
  expect(placed([worker('wk-1'), worker('wk-2', { publishes: true })], wanted)).toBe(
    "worker wk-1's name cannot publish again: upgrade it",
  )
})

test.each<[string, WorkerFacts[]]>([
  ['no workers connected', []],
  ['no workers connected', [worker('wk-1', away), worker('wk-2', { ...away, ...draining })]],
  ['all workers are draining', [worker('wk-1', away), worker('wk-2', draining)]],
  ['fleet at capacity', [worker('wk-1', full), worker('wk-2', draining), worker('wk-3', held)]],
  ['fleet at capacity', [worker('wk-1', { max: 1, used: 3 })]],
  ['all workers refused a dispatch a moment ago', [worker('wk-1', paused), worker('wk-2', held)]],
  ["the disk of worker wk-1's name is full (room for 512 MiB, a run needs 1024)", [worker('wk-1', fullDisk)]],
  [
    "the disk of worker wk-1's name is full (room for 512 MiB, a run needs 1024), and so are those of 1 more",
    [worker('wk-1', fullDisk), worker('wk-2', { ...fullDisk, ...held }), worker('wk-3', away)],
  ],
  ['all workers refused a dispatch a moment ago', [worker('wk-1', fullDisk), worker('wk-2', paused)]],
  ['fleet at capacity', [worker('wk-1', fullDisk), worker('wk-2', full)]],
  ['all workers are on hold: disk', [worker('wk-1', held), worker('wk-2', draining)]],
])('waits: %s', (reason, workers) => {
  expect(placed(workers)).toBe(reason)
})

test('what a machine for one run lacked is the reason after the machine has ended', () => {
  const setbacks = new Map([['run run-1', { reason: 'the branch has no valid name: rename it' }]])
  const wanted = { ...want, needs: { key: 'web', subjects: [] } }
  const ended = worker('wk-1', { ...away, max: 0, setbacks })
  expect(placed([ended], wanted)).toBe('the branch has no valid name: rename it')
  expect(placed([ended, worker('wk-2', full)], wanted)).toBe('fleet at capacity')
  expect(placed([ended, worker('wk-2')], wanted)).toBe('wk-2')
  expect(placed([worker('wk-1', { ...away, setbacks })], wanted)).toBe('no workers connected')
})

test('the condition of the run itself comes before all worker reasons', () => {
  expect(placed([worker('wk-1')], { ...want, waitingFor: BLOCKED })).toBe(BLOCKED.reason)
})

test('the explanation lists every worker with its first reason', () => {
  const workers = [worker('wk-1', { used: 1 }), worker('wk-2', draining)]
  expect(explainPlacement({ ...want, requiredWorker: 'wk-1' }, workers, NOW)).toEqual({
    runId: 'run-1',
    worker: 'wk-1',
    workers: [
      { id: 'wk-1', name: "wk-1's name", free: 1 },
      { id: 'wk-2', name: "wk-2's name", free: 2, reason: 'draining' },
    ],
  })
  expect(explainPlacement(want, [], NOW)).toEqual({
    runId: 'run-1',
    reason: 'no workers connected',
    workers: [],
  })
})

const anyWorkers = fc.uniqueArray(
  fc.record(
    {
      id: fc.constantFrom('wk-1', 'wk-2', 'wk-3', 'wk-4'),
      name: fc.constant('name'),
      state: fc.constantFrom('active' as const, 'draining' as const),
      online: fc.boolean(),
      max: fc.integer({ min: 1, max: 3 }),
      used: fc.integer({ min: 0, max: 4 }),
      pausedUntil: fc.constantFrom(NOW - 1, NOW + 1),
      hold: fc.constant('disk'),
    },
    { requiredKeys: ['id', 'name', 'state', 'online', 'max', 'used'] },
  ),
  { selector: ({ id }) => id },
)
const anyWant: fc.Arbitrary<PlacementRequest> = fc.record(
  {
    runId: fc.constant('run-1'),
    requiredWorker: fc.constantFrom('wk-1', 'wk-9'),
    preferredWorker: fc.constantFrom('wk-1', 'wk-9'),
    waitingFor: fc.constant(BLOCKED),
  },
  { requiredKeys: ['runId'] },
)
const check = createChecker(Placement)

test('a run is placed exactly when some worker has no obstacle; the order of workers does not matter', () => {
  fc.assert(
    fc.property(anyWant, anyWorkers, (wanted, workers) => {
      const found = placeRun(wanted, workers, NOW)
      const able = workers.filter((worker) => exclusionReason(worker, wanted, NOW) === undefined)
      expect(found.is === 'placed').toBe(able.length > 0 && wanted.waitingFor === undefined)
      const chosen = able.find(({ id }) => found.is === 'placed' && id === found.worker)
      if (found.is === 'placed') expect(chosen).toMatchObject({ online: true, state: 'active' })
      expect(placeRun(wanted, workers.toReversed(), NOW)).toEqual(found)
      const explanation = explainPlacement(wanted, workers, NOW)
      expect(check(explanation)).toMatchObject({ ok: true })
      expect(explanation.worker).toBe(found.is === 'placed' ? found.worker : undefined)
      expect(explanation.reason).toBe(found.is === 'waits' ? found.reason : undefined)
    }),
  )
})

// ---- what a job needs ----------------------------------------------------------------------------------------------

const needs: JobNeeds = { key: 'a', agent: 'agentA', subjects: ["acme/web can't be read"] }
const wanting: PlacementRequest = { runId: 'run-1', needs }
const lacking = { agents: { agentA: { found: false, problem: 'install it' } } }
const having = { agents: { agentA: { found: true } } }
const tried = {
  ...having,
  setbacks: new Map([["acme/web can't be read", { reason: "acme/web can't be read: x" }]]),
}

test('a run goes to a worker that has its agent, and to one that reports no agents', () => {
  expect(placed([worker('wk-1', lacking), worker('wk-2', { ...having, used: 1 })], wanting)).toBe('wk-2')
  expect(placed([worker('wk-1', lacking), worker('wk-2', { used: 1 })], wanting)).toBe('wk-2')
  expect(
    placed([worker('wk-1', { agents: {} })], { ...wanting, needs: { ...needs, agent: 'agentB' } }),
  ).toMatch(/^no worker has agentB: install agentB/)
  expect(placed([worker('wk-1', lacking)], { runId: 'run-1', needs: { key: 'b', subjects: [] } })).toBe(
    'wk-1',
  )
})

test.each<[title: string, workers: WorkerFacts[], reason: string]>([
  ['no agent', [worker('wk-1', lacking)], 'no worker has agentA: install it'],
  [
    'the agent is busy elsewhere',
    [worker('wk-1', lacking), worker('wk-2', { ...having, ...full })],
    'fleet at capacity',
  ],
  [
    'the one with the agent is away',
    [worker('wk-1', lacking), worker('wk-2', { ...having, ...away })],
    'no worker has agentA: install it',
  ],
  ['tried in vain', [worker('wk-1', tried), worker('wk-2', lacking)], "acme/web can't be read: x"],
  [
    'the disk of the only one with the agent is full',
    [worker('wk-1', lacking), worker('wk-2', { ...having, ...fullDisk })],
    "the disk of worker wk-2's name is full (room for 512 MiB, a run needs 1024); no other connected worker could take it",
  ],
  ['nobody is connected', [worker('wk-1', { ...lacking, ...away })], 'no workers connected'],
  ['draining, and has the agent', [worker('wk-1', { ...having, ...draining })], 'all workers are draining'],
])('the reason to wait: %s', (_, workers, reason) => {
  expect(placed(workers, wanting)).toBe(reason)
})

test('a run with a memory limit goes only to a worker that has one', () => {
  const limited = { runId: 'run-1', needs: { ...needs, limitsMemory: true } } as const
  const able = { ...having, limitsMemory: true }
  expect(placed([worker('wk-1', having), worker('wk-2', { ...able, used: 1 })], limited)).toBe('wk-2')
  expect(placed([worker('wk-1', having), worker('wk-2')], limited)).toBe(
    "worker wk-1's name has no memory limit",
  )
  expect(placed([worker('wk-1', having), worker('wk-2', { ...able, ...full })], limited)).toBe(
    'fleet at capacity',
  )
  expect(placed([worker('wk-1', { ...lacking, limitsMemory: true }), worker('wk-2', having)], limited)).toBe(
    'no worker has agentA: install it',
  )
})

test('a missing credential keeps a run from workers that report their agents', () => {
  const keyless = {
    runId: 'run-1',
    needs: { ...needs, missingCredential: 'credential of agentA is missing: x' },
  }
  expect(placed([worker('wk-1', having)], keyless)).toBe('credential of agentA is missing: x')
  expect(placed([worker('wk-1')], keyless)).toBe('wk-1')
})

test('a required worker without the agent is the reason', () => {
  const required = { ...wanting, requiredWorker: 'wk-1' }
  expect(placed([worker('wk-1', lacking), worker('wk-2', having)], required)).toBe(
    'no worker has agentA: install it',
  )
})

test('a setback of one run concerns no other run', () => {
  const own = { ...having, setbacks: new Map([['run run-1', { reason: 'its branch is taken' }]]) }
  expect(placed([worker('wk-1', own)], wanting)).toBe('its branch is taken')
  expect(placed([worker('wk-1', own)], { ...wanting, runId: 'run-2' })).toBe('wk-1')
})

test('only a lasting obstacle of every connected worker is a lasting reason', () => {
  expect(
    lastingReason(wanting, [worker('wk-1', lacking), worker('wk-2', { ...having, ...full })]),
  ).toBeUndefined()
  expect(lastingReason(wanting, [worker('wk-1', lacking), worker('wk-2', { ...having, ...away })])).toEqual({
    rank: 2,
    gate: 'workers',
    reason: 'no worker has agentA: install it',
  })
  expect(lastingReason(wanting, [worker('wk-1', { ...lacking, ...away })])).toBeUndefined()
})
