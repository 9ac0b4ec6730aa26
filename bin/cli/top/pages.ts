/** The pages that stand in the place of the board: its help, and the lines of `status` on a very small terminal. */
import { hasEnded } from '../../../client/run-events.ts'
import { Output } from '../../output/output.ts'
import type { OutputStream } from '../../output/styled-stream.ts'
import type { HostSnapshot } from '../status/host-records.ts'
import { printSnapshot } from '../status/status-lines.ts'
import type { Board } from './board.ts'
import type { BoardRecords } from './board-records.ts'
import { type BoardView, feedSpan } from './layout.ts'
import { alignSpans, type BoardLine, cellSpans, lineOfText } from './line.ts'

const BOARD_COLUMNS_MIN = 60
const BOARD_ROWS_MIN = 12

/** A terminal of such a size shows the lines of `status`. */
export const isTooSmall = ({ columns, rows }: Pick<BoardView, 'columns' | 'rows'>): boolean =>
  columns < BOARD_COLUMNS_MIN || rows < BOARD_ROWS_MIN

const HELP: readonly (readonly [keys: string, text: string])[] = [
  ['up, down, k, j', 'select a row'],
  ['enter', 'show the run'],
  ['l', 'follow its log; Ctrl-C comes back'],
  ['a', 'attach to its session, once it has ended'],
  ['c', 'cancel it; asks first'],
  ['r', 'queue it again'],
  ['q, Ctrl-C', 'quit; the host and its runs go on'],
  ['Ctrl-Z', 'suspend; fg comes back'],
]

type PageView = Pick<BoardView, 'text' | 'columns' | 'rows' | 'present' | 'feed'>

export function helpPage({ text, columns, rows, present, feed }: PageView): BoardLine[] {
  const title = alignSpans(
    [{ text: 'Keys of switchyard top', role: 'bold' }],
    [feedSpan(feed, present)],
    columns,
  )
  const lines = HELP.map(
    ([keys, what]): BoardLine => ({
      spans: [{ text: keys.padEnd(16), role: 'bold' }, ...cellSpans(text, what, columns - 16)],
    }),
  )
  const filler = Array.from({ length: rows - lines.length - 3 }, () => ({ spans: [] }))
  return [title, { spans: [] }, ...lines, ...filler, lineOfText('any key: back to the board', 'dim')]
}

export interface SmallStatusFacts {
  readonly env: NodeJS.ProcessEnv
  readonly platform: NodeJS.Platform
}

export function smallStatus(
  records: BoardRecords,
  board: Board,
  { text, columns, rows, present, feed }: PageView,
  { env, platform }: SmallStatusFacts,
): BoardLine[] {
  const { config } = records
  if (config === undefined) return []
  // The socket reports the states of the tracker, and not each poll.
  const { lastPollAt: _, ...tracker } = records.tracker
  const stdout = new CollectedLines(columns)
  const stderr = new CollectedLines(columns)
  const output = new Output({ stdout, stderr, env, platform, color: 'never', quiet: true, exit: () => {} })
  const runs = [...records.runs.values()]
  const snapshot: HostSnapshot = {
    health: {},
    tracker,
    paused: board.isPaused,
    workers: records.workers,
    runs: runs.filter((run) => !hasEnded(run)),
    attention: records.attention,
  }
  const names = new Map(
    records.attention.flatMap(({ id, runId }) => {
      const run = records.runs.get(runId ?? '')
      return run === undefined ? [] : [[id, run.ticket.identifier]]
    }),
  )
  printSnapshot({ output, present: () => present }, snapshot, {
    config,
    codeHost: config.codehost.driver,
    finished: runs.filter(hasEnded),
    spentToday: board.cost,
    names,
  })
  const [first = '', ...others] = stdout.lines
  const connection = feedSpan(feed, present)
  const head = cellSpans(text, first, Math.max(0, columns - connection.text.length - 2))
  const lines = others.map((line): BoardLine => ({ spans: cellSpans(text, line, columns) }))
  return [alignSpans(head, [connection], columns), ...lines].slice(0, rows)
}

/** A terminal in memory. */
class CollectedLines implements OutputStream {
  readonly isTTY = true
  readonly columns: number
  #text = ''

  constructor(columns: number) {
    this.columns = columns
  }

  get lines(): string[] {
    return this.#text.replace(/\n$/, '').split('\n')
  }

  write(text: string): boolean {
    this.#text += text
    return true
  }

  on(): void {}
  once(): void {}
}
