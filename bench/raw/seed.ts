/**
 * Makes a data directory with many finished runs, through the store's own ports.
 *
 * Arguments: the folder, how many. A process of its own, so that what seeding leaves in memory is nobody's business.
 * Only the control database is filled: nobody looks at the event log of a finished run until somebody asks for it.
 */
import { realChance, realClock } from '../../bin/clock.ts'
import type { Write } from '../../core/ports.ts'
import type { Run } from '../../protocol/run.ts'
import { openStore } from '../../store/store.ts'
import { mute, noMeters } from '../mute.ts'

const BATCH = 1_000
const FIRST_AT = Date.UTC(2026, 0, 1)
const RUN_EVERY_MS = 60_000
/** A person works on some tickets again and again. */
const TICKETS = 20_000
const FINISHES = ['completed', 'completed', 'completed', 'failed', 'cancelled'] as const

const [folder = '', count = '0'] = process.argv.slice(2)

const store = await openStore({
  dataDir: folder,
  clock: realClock,
  chance: realChance,
  log: mute,
  meters: noMeters,
})
for (let from = 0; from < Number(count); from += BATCH) {
  const size = Math.min(BATCH, Number(count) - from)
  const writes = Array.from({ length: size }, (_, at): Write => {
    const run = finished(from + at)
    return { table: 'run', id: run.id, run }
  })
  await store.ledger.commit(writes)
}
const found = store.ledger.runs.count()
await store.close()
if (found !== Number(count)) throw new Error(`the store counts ${found} runs, not ${count}`)

/** About as long as a real one: two paragraphs of ticket, a result, what it cost. */
function finished(at: number): Run {
  const began = FIRST_AT + at * RUN_EVERY_MS
  const instant = (afterMs: number): string => new Date(began + afterMs).toISOString()
  const ticket = at % TICKETS
  const tokens = {
    inputTokens: 120_000 + at,
    outputTokens: 4_000,
    cacheReadTokens: 90_000,
    cacheWriteTokens: 3_000,
  }
  return {
    id: `run-${began.toString(36).padStart(9, '0')}-${String(at).padStart(7, '0')}`,
    ticket: {
      id: `5e1f0c52-0000-4000-8000-${String(ticket).padStart(12, '0')}`,
      identifier: `ENG-${ticket}`,
      title: `Make the thing number ${ticket} do what its neighbour already does`,
      description:
        'It should, whenever somebody asks, do what the neighbour does, in the same words. '.repeat(4),
      url: `https://tracker.example.org/team/issue/ENG-${ticket}`,
      state: 'In Progress',
      priority: 2,
      labels: ['agent'],
      blockedBy: [],
      createdAt: instant(-86_400_000),
      updatedAt: instant(-3_600_000),
    },
    status: FINISHES[at % FINISHES.length] ?? 'completed',
    sandbox: { provider: 'bwrap', id: `box-${at}` },
    agentSessionId: `5e1f0c52-1111-4000-8000-${String(at).padStart(12, '0')}`,
    createdAt: instant(0),
    queuedAt: instant(0),
    startedAt: instant(1_000),
    finishedAt: instant(600_000),
    result: {
      prUrl: `https://code.example.org/team/repo/pull/${at}`,
      branch: `agent/eng-${ticket}`,
      summary: 'Did what the ticket asks, with a test. '.repeat(3),
      artifacts: [],
    },
    costs: [{ label: 'agent', provider: 'agentA', ...tokens, costUsd: 0.42, estimated: false }],
    costTotals: { ...tokens, costUsd: 0.42, estimated: false, byModel: [] },
    prUrl: `https://code.example.org/team/repo/pull/${at}`,
    prState: 'merged',
  } as Run
}
