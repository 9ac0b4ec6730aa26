/** Runs, tickets and costs for the tests of the rules of a run. */
import fc from 'fast-check'
import type { CostEntry, CostModelUsage } from '../../../protocol/cost.ts'
import type { Run, Ticket } from '../../../protocol/run.ts'

export const T0 = '2026-03-01T08:00:00.000Z'
export const T1 = '2026-03-01T09:00:00.000Z'

export const aTicket: Ticket = {
  id: 't-12',
  identifier: 'ENG-12',
  title: 'The lamp flickers',
  description: 'Only at night.',
  url: '',
  state: 'Todo',
  priority: 2,
  labels: ['bug'],
  branchName: 'ada/eng-12',
  blockedBy: ['t-11'],
  createdAt: T0,
  updatedAt: T0,
}

export const aRun = (more: Partial<Run> = {}): Run => ({
  id: 'run-1',
  ticket: aTicket,
  status: 'queued',
  sandbox: {},
  createdAt: T0,
  queuedAt: T0,
  costs: [],
  ...more,
})

export const aCost = (more: Partial<CostEntry> = {}): CostEntry => ({
  label: 'whatever the worker says',
  provider: 'agentA',
  model: 'large',
  inputTokens: 1,
  outputTokens: 2,
  cacheReadTokens: 3,
  cacheWriteTokens: 4,
  costUsd: 0.5,
  estimated: false,
  ...more,
})

// ---- any of them -----------------------------------------------------------------------------------------------

const count = fc.integer({ min: 0, max: 1_000_000 })
const dollars = fc.option(
  fc.integer({ min: 0, max: 10_000 }).map((cents) => cents / 100),
  { nil: undefined },
)
const model = fc.constantFrom('large', 'small', 'tiny')
const tokens = { inputTokens: count, outputTokens: count, cacheReadTokens: count, cacheWriteTokens: count }

/** Removes undefined keys, as JSON does. */
export const dense = <T>(value: object): T => JSON.parse(JSON.stringify(value))

const anyRow: fc.Arbitrary<CostModelUsage> = fc
  .record({ model, ...tokens, costUsd: dollars })
  .map((row) => dense<CostModelUsage>(row))

export const anyCost: fc.Arbitrary<CostEntry> = fc
  .record({
    label: fc.constantFrom('a', 'b'),
    provider: fc.constantFrom('agentA', 'agentB'),
    model: fc.option(model, { nil: undefined }),
    ...tokens,
    costUsd: dollars,
    estimated: fc.boolean(),
    breakdown: fc.option(fc.array(anyRow, { maxLength: 4 }), { nil: undefined }),
  })
  .map((entry) => dense<CostEntry>(entry))
