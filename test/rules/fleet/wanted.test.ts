/** Tests of which queued runs one more machine could take. */
import { describe, expect, test } from '@jest/globals'
import type { PlacementRequest, WorkerFacts } from '../../../core/fleet/obstacles.ts'
import { awaitsAnyWorker, experienceOf, isHeldByOperator } from '../../../core/fleet/wanted.ts'
import type { JobNeeds } from '../../../core/run/job-needs.ts'
import type { WorkerAgents } from '../../../protocol/worker.ts'

const needs: JobNeeds = { key: 'k', agent: 'agentA', subjects: ['owner/name', 'credential of agentA'] }
const request: PlacementRequest = { runId: 'run-1', needs }

const machine = (setbacks: readonly string[] = [], agents?: WorkerAgents): WorkerFacts => ({
  id: 'wk-1',
  name: 'forge',
  state: 'active',
  online: false,
  max: 1,
  used: 0,
  agents,
  setbacks: new Map(setbacks.map((subject) => [subject, { reason: `${subject} can't be used` }])),
})
const isWanted = (machines: readonly WorkerFacts[], more: Partial<PlacementRequest> = {}): boolean =>
  awaitsAnyWorker({ ...request, ...more }, experienceOf(machines))

const WITH_AGENT: WorkerAgents = { agentA: { found: true } }
const WITHOUT_AGENT: WorkerAgents = { agentB: { found: true } }

describe('a run that nothing but a missing free worker holds back is wanted', () => {
  test('with no machine at all, so that a fleet starts from nothing', () => expect(isWanted([])).toBe(true))
  test('with needs that nobody knows', () =>
    expect(awaitsAnyWorker({ runId: 'run-1' }, experienceOf([]))).toBe(true))
  test('when a machine has its agent, and when a machine reports none', () => {
    expect(isWanted([machine([], WITHOUT_AGENT), machine([], WITH_AGENT)])).toBe(true)
    expect(isWanted([machine([], WITHOUT_AGENT), machine()])).toBe(true)
  })
  test('without its credential when a machine of an earlier version is there, which may bring it', () => {
    const lacking = { needs: { ...needs, missingCredential: 'credential of agentA is missing' } }
    expect(isWanted([machine()], lacking)).toBe(true)
    expect(isWanted([machine([], WITH_AGENT)], lacking)).toBe(false)
  })
  test('when a machine could not use what other runs need', () =>
    expect(isWanted([machine(['other/name', 'run run-2'], WITH_AGENT)])).toBe(true))
})

describe('not wanted is a run', () => {
  test('that waits for something else', () =>
    expect(isWanted([], { waitingFor: { gate: 'blockers', reason: 'waiting for ENG-1' } })).toBe(false))
  test('that waits for the worker which holds its sandbox', () =>
    expect(isWanted([], { requiredWorker: 'wk-1' })).toBe(false))
  test('whose credential the configuration lacks', () =>
    expect(isWanted([], { needs: { ...needs, missingCredential: 'credential of agentA is missing' } })).toBe(
      false,
    ))
  test('whose remote or key the last machine could not use', () => {
    for (const subject of needs.subjects) expect(isWanted([machine(), machine([subject])])).toBe(false)
    expect(isWanted([machine(['run run-1'])])).toBe(false)
  })
  test('whose memory no machine can limit', () => {
    const limited = { needs: { ...needs, limitsMemory: true } } as const
    expect(isWanted([machine([], WITH_AGENT)], limited)).toBe(false)
    expect(isWanted([{ ...machine([], WITH_AGENT), limitsMemory: true }, machine()], limited)).toBe(true)
    expect(isWanted([], limited)).toBe(true)
  })
  test('whose agent no machine has', () => expect(isWanted([machine([], WITHOUT_AGENT)])).toBe(false))
})

describe('the fleet is held by an operator', () => {
  const operators = { state: 'draining', drainedBy: ['operator'] } as const
  const both = { state: 'draining', drainedBy: ['supervisor', 'operator'] } as const
  const supervisors = { state: 'draining', drainedBy: ['supervisor'] } as const
  const ofEarlierVersion = { state: 'draining' } as const
  test('when an operator drains all machines', () =>
    expect(isHeldByOperator([operators, both, ofEarlierVersion])).toBe(true))
  test('but not when one takes runs, or sleeps by its own supervisor', () => {
    expect(isHeldByOperator([operators, { state: 'active' }])).toBe(false)
    expect(isHeldByOperator([operators, supervisors])).toBe(false)
  })
  test('nor when there is none', () => expect(isHeldByOperator([])).toBe(false))
})
