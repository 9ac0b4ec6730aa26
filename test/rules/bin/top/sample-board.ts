/** The board of the examples: four active runs, three that wait, two that have ended, four workers. */

import { type Board, createBoard } from '../../../../bin/cli/top/board.ts'
import { BoardRecords } from '../../../../bin/cli/top/board-records.ts'
import { type BoardView, layoutBoard } from '../../../../bin/cli/top/layout.ts'
import { textOf } from '../../../../bin/cli/top/line.ts'
import { StyledStream } from '../../../../bin/output/styled-stream.ts'
import { lastMidnight, type Present } from '../../../../bin/output/times.ts'
import { configDefaults } from '../../../../protocol/config.ts'
import type { CostTotals } from '../../../../protocol/cost.ts'
import type { Run, RunEvent } from '../../../../protocol/run.ts'
import type { WorkerView } from '../../../../protocol/worker.ts'
import { fakeRun, fakeWorker } from '../../../support/fake-host-api.ts'
import { MemoryStream } from '../../../support/memory-stream.ts'

export const NOW = Date.parse('2026-11-22T14:32:10.000Z')
export const PRESENT: Present = { now: NOW, offset: () => 60 }

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

const instant = (agoMs: number): string => new Date(NOW - agoMs).toISOString()
export const runId = (number: number): string => `run-${String(number).padStart(32, '0')}`

interface SampleRun extends Partial<Run> {
  readonly agoMs: number
  readonly title: string
  readonly cost?: readonly [usd: number, estimated: boolean]
  readonly worker?: string
}

export function sampleRun(
  number: number,
  status: Run['status'],
  { agoMs, title, cost, worker, ...more }: SampleRun,
): Run {
  const base = fakeRun(runId(number), status, `ENG-${number}`)
  return {
    ...base,
    ticket: { ...base.ticket, title, repo: 'api' },
    createdAt: instant(agoMs),
    sandbox: worker === undefined ? {} : { workerId: `wk-${worker}`, workerName: worker },
    ...(cost === undefined ? {} : { costTotals: totalsOf(...cost) }),
    ...more,
  }
}

const totalsOf = (costUsd: number, estimated: boolean): CostTotals => ({
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  costUsd,
  estimated,
  byModel: [],
})

const RUNS: readonly Run[] = [
  sampleRun(251, 'queued', {
    agoMs: 12 * SECOND_MS,
    title: 'Say which file is too large',
    queueReason: 'fleet at capacity',
  }),
  sampleRun(247, 'queued', {
    agoMs: 30 * SECOND_MS,
    title: 'Invoice export',
    queueReason: 'waiting for ENG-245',
  }),
  sampleRun(245, 'queued', {
    agoMs: 190 * SECOND_MS,
    title: 'Dark mode for settings',
    cost: [0.33, true],
    queueReason: 'usage limit of agentB until 2026-11-22T17:00:00.000Z',
  }),
  sampleRun(242, 'preparing', { agoMs: 200 * SECOND_MS, title: 'Drop Node 18 from CI', worker: 'atlas' }),
  sampleRun(240, 'finalizing', {
    agoMs: 340 * SECOND_MS,
    title: 'Paginate the audit log in pages',
    cost: [0.41, true],
    worker: 'forge',
  }),
  sampleRun(238, 'running', {
    agoMs: 12 * MINUTE_MS,
    title: 'Upload test is slow',
    cost: [0.62, true],
    worker: 'forge',
  }),
  sampleRun(231, 'running', {
    agoMs: 26 * MINUTE_MS,
    title: 'Rate limit login attempts',
    cost: [1.84, false],
    worker: 'atlas',
  }),
  sampleRun(228, 'failed', {
    agoMs: 65 * MINUTE_MS,
    title: 'Upload test is flaky',
    cost: [3.1, false],
    worker: 'mica',
    finishedAt: instant(24 * MINUTE_MS),
    error: 'verify "npm test" exited with 1',
  }),
  sampleRun(219, 'completed', {
    agoMs: 100 * MINUTE_MS,
    title: '登録フォームの検証',
    cost: [0.97, true],
    worker: 'forge',
    finishedAt: instant(50 * MINUTE_MS),
    pull: { remote: 'acme/api', number: 87, branch: 'switchyard/eng-219', confirmed: true },
    prState: 'open',
  }),
]

const worker = (name: string, more: Partial<WorkerView>): WorkerView => ({
  ...fakeWorker(`wk-${name}`),
  name,
  connection: 'online',
  capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 2, version: '0.2.0' },
  ...more,
})

const WORKERS: readonly WorkerView[] = [
  worker('atlas', { activeRuns: 2 }),
  worker('forge', {
    activeRuns: 2,
    capabilities: { os: 'linux', arch: 'arm64', provider: 'bwrap', maxConcurrency: 2, version: '0.1.9' },
  }),
  worker('mica', { state: 'draining' }),
  worker('onyx', { connection: 'offline', lastSeenAt: instant(2 * HOUR_MS) }),
]

const eventOf = (number: number, index: number, text: string, name?: string): RunEvent => {
  const head = { runId: runId(number), index, at: instant(MINUTE_MS) }
  if (name === undefined) return { ...head, type: 'log', stream: 'stdout', text }
  if (name === '#') return { ...head, type: 'log', stream: 'system', text }
  const part = { type: 'tool_use', name, input: { command: text } }
  return {
    ...head,
    type: 'agent',
    provider: 'agentA',
    message: { type: 'assistant', message: { content: [part] } },
  }
}

export const EVENTS: readonly RunEvent[] = [
  eventOf(231, 7, 'npm test', 'Bash'),
  eventOf(238, 3, 'test/upload.test.ts', 'Edit'),
  eventOf(240, 4, 'pushed switchyard/eng-240\n', '#'),
  eventOf(242, 2, 'added 96 packages in 8s\n'),
]

const item = (number: number, kind: 'failed' | 'review', message: string) => ({
  id: `${kind}:${number}`,
  kind,
  message,
  cure: `switchyard logs ENG-${number}`,
  runId: runId(number),
  since: instant(24 * MINUTE_MS),
})

/** Records as the socket fills them. @param runs more runs than those of the example */
export function sampleRecords(runs: readonly Run[] = RUNS, workers = WORKERS): BoardRecords {
  const records = new BoardRecords()
  records.applyFrame({
    type: 'hello',
    runs: [...runs],
    tickets: [],
    config: configDefaults,
    linearStatus: { state: 'connected' },
    workers: [...workers],
  })
  records.hostVersion = '0.2.0'
  if (runs.length > 0) records.spent = { since: lastMidnight(PRESENT), text: '~$14.20' }
  records.addEvents(EVENTS)
  if (runs.length > 0)
    records.applyFrame({
      type: 'attention',
      items: [
        item(228, 'failed', 'failed: verify "npm test" exited with 1'),
        item(219, 'review', 'review asked on api#87, checks passed'),
      ],
    })
  return records
}

export const sampleRuns = RUNS

export function textFor(env: NodeJS.ProcessEnv = { LANG: 'C.UTF-8' }, columns = 80): StyledStream {
  return new StyledStream(new MemoryStream({ columns }), { env, platform: 'linux' })
}

export const boardOf = (records: BoardRecords): Board => createBoard(records, PRESENT)

export function viewOf(columns: number, rows: number, more: Partial<BoardView> = {}): BoardView {
  return {
    text: textFor(),
    columns,
    rows,
    present: PRESENT,
    feed: { is: 'live' },
    selected: `run ${runId(231)}`,
    log: [],
    workersSummary: '3 of 4 online, 4 of 4 slots taken',
    ...more,
  }
}

export const drawBoard = (board: Board, view: BoardView): string[] => layoutBoard(board, view).map(textOf)
