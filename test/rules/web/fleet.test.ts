/** The fleet page: situations, filters, sentences about what remains and what a revocation loses, steps of SSH. */
import { expect, test } from '@jest/globals'
import { configDefaults } from '../../../protocol/config.ts'
import type { ProvisionPush } from '../../../protocol/provision.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import {
  countWorkers,
  filterFleet,
  fleetAgents,
  fleetRowsOf,
  situationOf,
} from '../../../web/dashboard/fleet/fleet-rows.ts'
import {
  applyOutcome,
  applyStep,
  parseTarget,
  provisioningState,
  type SetUpMachines,
  targetId,
} from '../../../web/dashboard/fleet/provision-state.ts'
import {
  leaseEndOf,
  neededAgents,
  retainedSentence,
  revokeLoss,
  stateSentence,
  stateWord,
} from '../../../web/dashboard/fleet/worker-state.ts'
import { SampleRecords } from '../../support/sample-records.ts'

const NOW = Date.parse('2026-11-22T14:00:00.000Z')
const sample = new SampleRecords(NOW)
const { fleet } = configDefaults

const [template] = sample.workers()
if (template === undefined) throw new Error('no worker in the sample')
const worker = (fields: Partial<WorkerView> = {}): WorkerView => ({ ...template, ...fields })
const lease = (at: number, workerId: string) =>
  sample.run(at, 'running', { sandbox: { workerId, workerName: 'any' } })
function rowOf(fields: Partial<WorkerView> = {}, leases = 0) {
  const runs = Array.from({ length: leases }, (_, at) => lease(at, template?.id ?? ''))
  const [row] = fleetRowsOf([worker({ activeRuns: leases, ...fields })], runs, NOW)
  if (row === undefined) throw new Error('no row')
  return row
}

test.each([
  ['online', {}],
  ['draining', { state: 'draining', activeRuns: 1 }],
  ['draining', { state: 'draining', activeRuns: 0, attachSessions: 1 }],
  ['drained', { state: 'draining', activeRuns: 0 }],
  ['offline', { connection: 'offline', state: 'draining' }],
] as const)('a worker is %s', (situation, fields) => {
  expect(situationOf(worker(fields))).toBe(situation)
})

test('a worker that has never connected tells nothing about its machine', () => {
  const { capabilities: _, ...rest } = worker({ connection: 'offline' })
  expect(situationOf(rest)).toBe('new')
})

test('each worker has its leases, oldest first, and the sandboxes that it still keeps', () => {
  const id = template.id
  const older = { ...lease(1, id), startedAt: sample.ago(50) }
  const younger = { ...lease(2, id), startedAt: sample.ago(5) }
  const kept = (at: number, until: string) =>
    sample.run(at, 'completed', { sandbox: { workerId: id, retainedUntil: until } })
  const runs = [younger, older, lease(3, 'wk-other'), kept(4, sample.ago(-60)), kept(5, sample.ago(1))]
  const [row] = fleetRowsOf([template], runs, NOW)
  expect(row?.leases.map((run) => run.id)).toEqual([older.id, younger.id])
  expect(row?.retained).toHaveLength(1)
  expect(row && retainedSentence(row, NOW)).toMatch(/^Holds 1 retained sandbox until \d\d:\d\d$/)
})

test('filters look at the state, the agent and the words, tickets of leases included', () => {
  const rows = fleetRowsOf(sample.workers(), [lease(404, 'wk-kestrel-01')], NOW)
  const names = (filter: Parameters<typeof filterFleet>[1]) =>
    filterFleet(rows, filter).map((row) => row.worker.name)
  expect(countWorkers(rows)).toEqual({ online: 3, draining: 1, offline: 1 })
  expect(names({ state: 'draining' })).toEqual(['heron'])
  expect(names({ q: 'eng-404' })).toEqual(['kestrel-01'])
  expect(names({ agent: 'agentB' })).toEqual([])
  expect(fleetAgents(rows)).toEqual(['agentA'])
})

test('a draining worker says what remains and who drains it', () => {
  const row = rowOf({ state: 'draining', attachSessions: 1, drainedBy: ['operator', 'supervisor'] }, 2)
  expect(stateSentence(row, fleet, NOW)).toBe(
    '2 runs and 1 terminal remain. No new runs start here. Safe to stop when none remain. Drained by an operator and its supervisor.',
  )
  expect(stateSentence(rowOf({ state: 'draining' }, 1), fleet, NOW)).toMatch(/^1 run remains\. /)
})

test('an absent worker says until when its runs are waited for', () => {
  const row = rowOf({ connection: 'offline', lastSeenAt: sample.ago(1) }, 1)
  expect(stateWord(row, NOW)).toBe('Offline 1 m 00 s')
  expect(leaseEndOf(row.worker, fleet)).toBe(NOW - 60_000 + 165_000)
  expect(stateSentence(row, fleet, NOW)).toMatch(
    /^Its run is waited for until .+, then it is queued again\.$/,
  )
  expect(stateSentence(rowOf({ connection: 'offline' }), fleet, NOW)).toMatch(/^It holds no run/)
})

test('the runs of an absent worker are waited for longer when the host has started meanwhile', () => {
  const row = rowOf({ connection: 'offline', lastSeenAt: sample.ago(60) }, 1)
  expect(stateSentence(row, fleet, NOW)).toBe(
    'Its run is still waited for, and queued again unless it comes back soon.',
  )
})

test('a revocation says in numbers what is lost', () => {
  const row = rowOf({ attachSessions: 1 }, 2)
  const loss = revokeLoss(row, NOW)
  expect(loss).toMatch(/^2 runs are in progress there\. They are interrupted and queued again/)
  expect(loss).toContain('of work, ~$0.59.')
  expect(loss).toMatch(/1 terminal closes\. The machine needs a new token to come back\.$/)
  expect(revokeLoss(rowOf(), NOW)).toMatch(/^It holds no run and no sandbox\./)
})

// ---- provisioning --------------------------------------------------------------------------------------------------

const step = (number: number, status: ProvisionPush['status']): ProvisionPush => ({
  type: 'provision',
  id: 'ann@forge',
  step: `step-${number}`,
  status,
  message: '',
  number,
  count: 2,
  ms: 0,
})

const after = (...pushes: ProvisionPush[]): SetUpMachines =>
  pushes.reduce<SetUpMachines>(applyStep, new Map())
const stateAfter = (...pushes: ProvisionPush[]) => {
  const machine = after(...pushes).get('ann@forge')
  if (machine === undefined) throw new Error('no machine')
  return provisioningState(machine)
}

test('steps replace each other by their number, and a first step begins anew', () => {
  expect(after(step(1, 'running'), step(1, 'done'), step(2, 'running')).get('ann@forge')?.steps).toEqual([
    step(1, 'done'),
    step(2, 'running'),
  ])
  expect(stateAfter(step(1, 'done'), step(2, 'running'))).toBe('running')
  expect(stateAfter(step(1, 'done'), step(2, 'done'))).toBe('done')
  expect(stateAfter(step(1, 'failed'))).toBe('failed')
  expect(after(step(1, 'failed'), step(1, 'running')).get('ann@forge')?.steps).toHaveLength(1)
})

test('a request that is refused before its first step fails with its words', () => {
  const all = applyOutcome(new Map(), 'ann@forge', { isDone: false, message: 'no such file' })
  expect([...all.values()].map(provisioningState)).toEqual(['failed'])
})

test('a target is a user, a machine and perhaps a port, named as the host names it', () => {
  expect(parseTarget(' ann@forge:2222 ')).toEqual({ user: 'ann', host: 'forge', port: 2222 })
  expect(parseTarget('ann@[2001:db8::1]')).toEqual({ user: 'ann', host: '[2001:db8::1]' })
  expect([parseTarget('forge'), parseTarget('ann@'), parseTarget('@forge')]).toEqual([
    undefined,
    undefined,
    undefined,
  ])
  expect(targetId({ user: 'ann', host: '2001:db8::1' })).toBe('ann@[2001:db8::1]')
  expect(targetId({ user: 'ann', host: 'forge', port: 22 })).toBe('ann@forge')
})

test('an agent that a command of the configuration stands in for is needed on no machine', () => {
  const repos = { app: { remote: 'acme/app', agent: 'agentB' as const } }
  const agent = { ...configDefaults.agent, commands: { agentA: 'scripted-agent' } }
  expect([...neededAgents({ ...configDefaults, repos })]).toEqual(['agentA', 'agentB'])
  expect([...neededAgents({ agent, repos })]).toEqual(['agentB'])
})
