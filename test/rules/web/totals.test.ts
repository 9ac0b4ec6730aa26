/** The one reducer of the totals. */
import { expect, test } from '@jest/globals'
import type { Run } from '../../../protocol/run.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { totalsOf } from '../../../web/dashboard/state/totals.ts'

const NOON = new Date(2026, 10, 20, 12, 0).getTime()
const run = (fields: Partial<Run>) => fields as Run
const worker = (fields: object) => fields as WorkerView

test('runs count by their state, and finished ones by the local day', () => {
  const today = new Date(2026, 10, 20, 0, 1).toISOString()
  const yesterday = new Date(2026, 10, 19, 23, 59).toISOString()
  const totals = totalsOf({
    runs: [
      run({ status: 'queued' }),
      run({ status: 'preparing' }),
      run({ status: 'running' }),
      run({ status: 'running' }),
      run({ status: 'finalizing' }),
      run({ status: 'completed', finishedAt: today, prState: 'open' }),
      run({ status: 'completed', finishedAt: yesterday, prState: 'merged' }),
      run({ status: 'failed', finishedAt: today, prState: 'draft' }),
      run({ status: 'cancelled', finishedAt: today }),
      run({ status: 'cancelled' }),
    ],
    workers: [worker({ activeRuns: 2, capabilities: { maxConcurrency: 4 } }), worker({ activeRuns: 1 })],
    attention: [],
    now: NOON,
  })
  expect(totals).toEqual({
    queued: 1,
    preparing: 1,
    running: 2,
    finalizing: 1,
    inProgress: 4,
    completedToday: 1,
    failedToday: 1,
    cancelledToday: 1,
    finishedToday: 3,
    openPulls: 2,
    needsYou: 0,
    slots: 4,
    takenSlots: 3,
  })
})
