/** Creates runs as a host stores them: finished, waiting, and held by workers. */
import type { Write } from '../../core/ports/store.ts'
import type { LeaseFields, RunFields, WorkerFields } from '../../protocol/actor-snapshots.ts'
import type { Run, Ticket } from '../../protocol/run.ts'

const FIRST_AT = Date.UTC(2026, 0, 1)
const RUN_EVERY_MS = 60_000
/** Some tickets have several runs. */
const TICKETS = 20_000
const FINISHES = ['completed', 'completed', 'completed', 'failed', 'cancelled'] as const
const SLOTS = 8
const TERM_MS = 165_000

function runId(at: number): string {
  return `run-${(FIRST_AT + at * RUN_EVERY_MS).toString(36).padStart(9, '0')}-${String(at).padStart(7, '0')}`
}

const instantOf = (at: number, afterMs: number): string =>
  new Date(FIRST_AT + at * RUN_EVERY_MS + afterMs).toISOString()

function createTicket(at: number, ticket: number): Ticket {
  return {
    id: `5e1f0c52-0000-4000-8000-${String(ticket).padStart(12, '0')}`,
    identifier: `ENG-${ticket}`,
    title: `Make the thing number ${ticket} do what its neighbour already does`,
    description: 'It should, whenever somebody asks, do what the neighbour does, in the same words. '.repeat(
      4,
    ),
    url: `https://tracker.example.org/team/issue/ENG-${ticket}`,
    state: 'In Progress',
    priority: 2,
    labels: ['agent'],
    blockedBy: [],
    createdAt: instantOf(at, -86_400_000),
    updatedAt: instantOf(at, -3_600_000),
  }
}

/** About as long as a real run: two paragraphs of ticket, a result, its costs. */
export function finishedRunWrites(at: number): readonly Write[] {
  const tokens = {
    inputTokens: 120_000 + at,
    outputTokens: 4_000,
    cacheReadTokens: 90_000,
    cacheWriteTokens: 3_000,
  }
  const run: Run = {
    id: runId(at),
    ticket: createTicket(at, at % TICKETS),
    status: FINISHES[at % FINISHES.length] ?? 'completed',
    sandbox: { provider: 'bwrap', id: `box-${at}` },
    agentSessionId: `5e1f0c52-1111-4000-8000-${String(at).padStart(12, '0')}`,
    createdAt: instantOf(at, 0),
    queuedAt: instantOf(at, 0),
    startedAt: instantOf(at, 1_000),
    finishedAt: instantOf(at, 600_000),
    result: {
      prUrl: `https://code.example.org/team/repo/pull/${at}`,
      branch: `agent/eng-${at % TICKETS}`,
      summary: 'Did what the ticket asks, with a test. '.repeat(3),
      artifacts: [],
    },
    costs: [{ label: 'agent', provider: 'agentA', ...tokens, costUsd: 0.42, estimated: false }],
    costTotals: { ...tokens, costUsd: 0.42, estimated: false, byModel: [] },
    prUrl: `https://code.example.org/team/repo/pull/${at}`,
    prState: 'merged',
  }
  return [{ table: 'run', id: run.id, run }]
}

/** The only run of its ticket. */
export function waitingRun(at: number): Run {
  return {
    id: runId(at),
    ticket: createTicket(at, TICKETS + at),
    status: 'queued',
    sandbox: {},
    createdAt: instantOf(at, 0),
    queuedAt: instantOf(at, 0),
    costs: [],
  }
}

export function waitingRunWrites(at: number): readonly Write[] {
  return runWrites(waitingRun(at), 'q', null)
}

/** A run held by a worker; the first run of each worker also enrolls it. */
export function heldRunWrites(at: number, nth: number): readonly Write[] {
  const workerId = `wk-${String(Math.floor(nth / SLOTS)).padStart(16, '0')}`
  const run: Run = {
    ...waitingRun(at),
    status: 'running',
    startedAt: instantOf(at, 1_000),
    sandbox: { provider: 'bwrap', workerId },
  }
  const c: LeaseFields = {
    id: `ls-${String(at).padStart(32, '0')}`,
    runId: run.id,
    workerId,
    termMs: TERM_MS,
    grantedAt: instantOf(at, 500),
    end: null,
    why: null,
  }
  const lease: Write = { table: 'snapshot', kind: 'lease', key: c.id, record: { v: 1, s: 'h', c } }
  const enrolled = nth % SLOTS === 0 ? [workerWrite(workerId)] : []
  return [...runWrites(run, 'r', c.id), lease, ...enrolled]
}

function runWrites(run: Run, s: string, lease: string | null): Write[] {
  const c: RunFields = {
    job: 'run',
    lease,
    attempts: lease === null ? 0 : 1,
    costsBefore: 0,
    interruptions: 0,
    opened: false,
    place: null,
    opener: null,
    adoption: null,
    doneAt: null,
    publishing: null,
    earlier: null,
    woken: null,
    followUp: null,
  }
  return [
    { table: 'run', id: run.id, run },
    { table: 'snapshot', kind: 'run', key: run.id, record: { v: 3, s, c } },
  ]
}

function workerWrite(id: string): Write {
  const c: WorkerFields = {
    id,
    name: id,
    hash: '0'.repeat(64),
    enrolledAt: instantOf(0, 0),
    local: false,
    capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: SLOTS, version: '0.1.0' },
    lastSeenAt: instantOf(0, 0),
    proven: true,
  }
  return { table: 'snapshot', kind: 'worker', key: id, record: { v: 1, s: 'a', c } }
}
