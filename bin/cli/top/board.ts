/** Makes the rows of the board from its records, and moves the selection among them. */

import { withAgentNames } from '../../../client/agent-names.ts'
import { beginningOf } from '../../../client/run-beginning.ts'
import { hasEnded } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { formatAgeOf, lastMidnight, type Present } from '../../output/times.ts'
import type { BoardRecords } from './board-records.ts'

export interface NeedRow {
  readonly key: string
  /** The word that people use for the run or the trouble. */
  readonly name: string
  readonly message: string
  readonly cure?: string | undefined
  readonly run?: Run | undefined
}

export interface RunRow {
  readonly key: string
  readonly run: Run
  /** The newest line, the reason to wait, or the outcome. */
  readonly last: string
}

export interface WorkerRow {
  readonly worker: WorkerView
  /** The identifiers of its runs, or since when it is away. */
  readonly work: string
}

export interface Board {
  readonly active: number
  readonly queued: number
  readonly needs: readonly NeedRow[]
  /** Active runs, then queued ones, each the oldest first. */
  readonly unfinished: readonly RunRow[]
  /** The newest first. A failed run that needs somebody stands among `needs` alone. */
  readonly finished: readonly RunRow[]
  readonly workers: readonly WorkerRow[]
  /** Undefined while no price of today is known. */
  readonly cost: string | undefined
  readonly isPaused: boolean
  readonly hostVersion: string | undefined
}

/** As many as `switchyard runs` lists. */
const FINISHED_ROWS_MAX = 20

export function createBoard(records: BoardRecords, present: Present): Board {
  const runs = [...records.runs.values()].sort(byAge)
  const unfinished = runs.filter((run) => !hasEnded(run))
  const active = unfinished.filter(({ status }) => status !== 'queued')
  const queued = unfinished.filter(({ status }) => status === 'queued')
  const finished = runs.filter(hasEnded).reverse()
  const needs = records.attention.map(({ id, kind, message, cure, runId }): NeedRow => {
    const run = runId === undefined ? undefined : records.runs.get(runId)
    return { key: `need ${id}`, name: run?.ticket.identifier ?? kind, message, cure, run }
  })
  const failing = new Set(needs.flatMap(({ run }) => (run?.status === 'failed' ? [run.id] : [])))
  const rowOf = (run: Run): RunRow => ({ key: `run ${run.id}`, run, last: lastOf(records, run) })
  return {
    active: active.length,
    queued: queued.length,
    needs,
    unfinished: [...active, ...queued].map(rowOf),
    finished: finished
      .filter(({ id }) => !failing.has(id))
      .slice(0, FINISHED_ROWS_MAX)
      .map(rowOf),
    workers: records.workers.map((worker) => ({ worker, work: workOf(worker, active, present.now) })),
    cost: records.spent?.since === lastMidnight(present) ? records.spent.text : undefined,
    isPaused: records.config?.policy.paused === true,
    hostVersion: records.hostVersion,
  }
}

/** Runs that began at the same instant keep the order of their ids, which begin with the time. */
function byAge(a: Run, b: Run): number {
  const [began, otherBegan] = [Date.parse(beginningOf(a)), Date.parse(beginningOf(b))]
  return began - otherBegan || (a.id < b.id ? -1 : 1)
}

function lastOf(records: BoardRecords, run: Run): string {
  const { status, queueReason, waitReason, error } = run
  if (status === 'queued') return withAgentNames(queueReason ?? '-')
  if (status === 'completed') return pullOf(run) ?? '-'
  if (hasEnded(run)) return error ?? '-'
  return waitReason ?? records.newestLine(run.id) ?? '-'
}

/** `api#87 open`. */
function pullOf({ pull, prUrl, prState, ticket }: Run): string | undefined {
  const name = pull === undefined ? prUrl : `${ticket.repo ?? pull.remote}#${pull.number}`
  return name === undefined ? undefined : [name, prState].filter(Boolean).join(' ')
}

function workOf({ id, connection, lastSeenAt }: WorkerView, active: readonly Run[], now: number): string {
  if (connection === 'offline')
    return lastSeenAt === undefined ? '-' : `last seen ${formatAgeOf(lastSeenAt, now)} ago`
  return active
    .filter(({ sandbox }) => sandbox.workerId === id)
    .map(({ ticket }) => ticket.identifier)
    .join(' ')
}

// ---- selection -----------------------------------------------------------------------------------------------------

interface SelectableRow {
  readonly key: string
  readonly run?: Run | undefined
  readonly cure?: string | undefined
}

export const selectableRows = ({ needs, unfinished, finished }: Board): SelectableRow[] => [
  ...needs,
  ...unfinished,
  ...finished,
]

export const selectedRow = (board: Board, key: string | undefined): SelectableRow | undefined =>
  selectableRows(board).find((row) => row.key === key)

/**
 * Returns the key that is selected on another board: the same row, the same run elsewhere, or the row that has taken the
 * place. At first that is the first run.
 *
 * @param isChosen false until the person has moved: then an ended run leaves the selection to the first unfinished one,
 * because the rows around the selection are those that are shown
 */
export function keepSelection(
  key: string | undefined,
  before: Board | undefined,
  board: Board,
  isChosen = true,
): string | undefined {
  const rows = selectableRows(board)
  const first = board.unfinished[0] ?? board.finished[0] ?? board.needs[0]
  if (key === undefined || before === undefined) return first?.key
  if (!isChosen && !board.unfinished.some((row) => row.key === key)) return first?.key
  if (rows.some((row) => row.key === key)) return key
  const earlier = selectableRows(before)
  const place = earlier.findIndex((row) => row.key === key)
  const runId = earlier[place]?.run?.id
  const sameRun = rows.find(({ run }) => run !== undefined && run.id === runId)
  return (sameRun ?? rows[Math.min(Math.max(place, 0), rows.length - 1)])?.key
}

/** Moves up (-1) or down (1), and stops at the ends. */
export function moveSelection(board: Board, key: string | undefined, by: number): string | undefined {
  const rows = selectableRows(board)
  const place = rows.findIndex((row) => row.key === key)
  return rows[Math.min(Math.max(place + by, 0), rows.length - 1)]?.key
}
