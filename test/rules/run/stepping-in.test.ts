/** Tests of resume, release and discard, and of the cost of a person's session. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Result } from '../../../core/result.ts'
import { totalsOf } from '../../../core/run/cost.ts'
import { mayDiscard, mayResume, mayRetry, type ResumeFacts } from '../../../core/run/permission.ts'
import {
  addSessionCost,
  countSessions,
  newestInstant,
  sessionCost,
  sessionCostPart,
} from '../../../core/run/session-cost.ts'
import type { CostEntry } from '../../../protocol/cost.ts'
import { RUN_COSTS_MAX, USD_MAX } from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { RUN_STATUSES, Run } from '../../../protocol/run.ts'
import type { UsageEntry } from '../../../protocol/usage.ts'
import { aRun, T0 } from './runs.ts'

const LATER = '2026-03-02T08:00:00.000Z'
const facts: ResumeFacts = {
  now: Date.parse(T0),
  followUpStarting: false,
  booted: false,
  worker: { name: 'anvil', online: true },
}
const sandbox = { provider: 'bwrap', id: 'sb-1', workerId: 'wk-1', retainedUntil: LATER }
const ended = aRun({ status: 'completed', sandbox, agentSessionId: 'session-1' })

const verdict = (answer: Result<unknown>): string =>
  answer.ok ? 'yes' : `${answer.refusal.kind}: ${answer.refusal.message}`

describe('resume', () => {
  test('continues the session of the run', () => {
    expect(mayResume(ended, facts)).toEqual({ ok: true, value: { sessionId: 'session-1' } })
  })

  test('is allowed for finished runs of any outcome', () => {
    const may = RUN_STATUSES.filter((status) => mayResume({ ...ended, status }, facts).ok)
    expect(may).toEqual(['completed', 'failed', 'cancelled'])
  })

  test('gives lasting reasons before passing ones, in the specified order', () => {
    const away = { ...facts, worker: { name: 'an\u001bvil', online: false } }
    const { agentSessionId: _, ...without } = ended
    const late = { ...away, now: Date.parse(LATER) }
    const rows = [
      mayResume({ ...without, status: 'running' }, { ...late, followUpStarting: true }),
      mayResume(without, { ...late, followUpStarting: true }),
      mayResume(without, late),
      mayResume(without, { ...away, worker: undefined }),
      mayResume({ ...ended, agent: { provider: 'agentB' } }, away),
      mayResume(without, away),
      mayResume(ended, away),
      mayResume(ended, facts),
    ].map(verdict)
    expect(rows).toEqual([
      expect.stringMatching(/^conflict: .* is running/),
      expect.stringMatching(/^conflict: a follow-up .* is starting/),
      expect.stringMatching(/^gone: .* is kept no longer/),
      expect.stringMatching(/^gone: .* enrolled no more/),
      expect.stringMatching(/^invalid: .*claude/),
      expect.stringMatching(/^invalid: .*claude/),
      'conflict: worker an�vil holds the sandbox of run-1 and is not connected: start the worker, or its supervisor again, and try again',
      'yes',
    ])
  })

  test('of a run that never had a sandbox is refused for its missing session', () => {
    const { agentSessionId: _, ...without } = ended
    expect(verdict(mayResume({ ...without, sandbox: {} }, { ...facts, worker: undefined }))).toMatch(
      /^invalid/,
    )
    expect(verdict(mayResume({ ...ended, sandbox: {} }, { ...facts, worker: undefined }))).toMatch(/^gone/)
  })

  test('of a booted sandbox is possible after its retention time', () => {
    expect(mayResume(ended, { ...facts, now: Date.parse(LATER), booted: true }).ok).toBe(true)
  })
})

test('a run with a booted sandbox is neither discarded nor retried', () => {
  const inUse = /^conflict: the sandbox of run-1 is in use: close its terminals or release it first$/
  expect(verdict(mayRetry(ended, { competingRun: undefined, booted: true }))).toMatch(inUse)
  expect(verdict(mayDiscard(ended, { booted: true }))).toMatch(inUse)
})

// ---- costs -------------------------------------------------------------------------------------------------------

const PRICES = {
  asOf: '2026-01-01',
  models: { priced: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, source: 'a test' } },
}
const OWN: CostEntry = {
  label: 'run',
  provider: 'agentA',
  inputTokens: 1,
  outputTokens: 1,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  estimated: false,
}
const used = (id: string, at: string, more: Partial<UsageEntry> = {}): UsageEntry => ({
  id,
  at,
  model: 'priced',
  inputTokens: 1_000_000,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  ...more,
})

describe('the cost of a session', () => {
  test('covers the entries after the accounted instant, each once, priced where no price is given', () => {
    const entries = [used('old', T0), used('a', LATER), used('a', LATER), used('b', LATER, { costUsd: 5 })]
    const entry = sessionCost([sessionCostPart(entries, T0, PRICES)], 2)
    expect(entry).toEqual({
      label: 'attach 2',
      provider: 'agentA',
      model: 'priced',
      inputTokens: 2_000_000,
      outputTokens: 0,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      costUsd: 6,
      estimated: true,
      source: 'estimated',
    })
    expect(newestInstant(entries)).toBe(LATER)
  })

  test('is nothing when nothing was used', () => {
    expect(sessionCost([sessionCostPart([used('old', T0)], T0, PRICES)], 1)).toBeUndefined()
    expect(newestInstant([])).toBe('')
  })

  test('has no dollars for a model without a price', () => {
    const entry = sessionCost([sessionCostPart([used('a', LATER, { model: 'no such' })], T0, PRICES)], 1)
    expect(entry).not.toHaveProperty('costUsd')
    expect(entry?.inputTokens).toBe(1_000_000)
  })

  test('is an entry of the run that is replaced in place', () => {
    const cost = sessionCost([sessionCostPart([used('a', LATER)], T0, PRICES)], 1) as CostEntry
    const more = { ...cost, costUsd: 2 }
    const earlier = { ...cost, label: 'run' }
    const run = addSessionCost({ ...ended, costs: [earlier] }, cost)
    const followedUp = { ...run, costs: [...run.costs, { ...cost, label: 'follow-up 1' }] }
    const again = addSessionCost(followedUp, more)
    expect(again.costs.map(({ label, costUsd }) => `${label} ${costUsd}`)).toEqual([
      'run 1',
      'attach 1 2',
      'follow-up 1 1',
    ])
    expect(again.costTotals).toEqual(totalsOf(again.costs))
    expect(countSessions(again.costs)).toBe(1)
  })

  test('always leaves a valid record, whatever a worker reports', () => {
    const isRun = createChecker(Run)
    const figure = fc.maxSafeNat()
    const entry = fc.record({
      id: fc.string({ minLength: 1, maxLength: 5 }),
      at: fc.constantFrom(T0, LATER),
      model: fc.stringMatching(/^[a-z]{1,2}$/),
      inputTokens: figure,
      outputTokens: figure,
      cacheReadTokens: figure,
      cacheWriteTokens: figure,
      costUsd: fc.constantFrom(0, 0.1, USD_MAX),
    })
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 300 }), fc.nat(RUN_COSTS_MAX), (entries, count) => {
        const cost = sessionCost([sessionCostPart(entries, T0, PRICES)], 1)
        const run = { ...ended, costs: Array.from({ length: count }, () => OWN) }
        const after = cost === undefined ? run : addSessionCost(run, cost)
        expect(isRun(after)).toMatchObject({ ok: true })
      }),
      { numRuns: 40 },
    )
  })
})
