/**
 * Decides which rows of the board a terminal shows, from the counts of rows alone.
 *
 * What is too much gives way in this order: workers share one line, two items stay of what needs somebody, finished runs
 * go, queued runs become `and 9 more`, empty lines go, active runs scroll. The selected row is always among the shown.
 */

export interface RowCounts {
  readonly rows: number
  readonly footer: number
  readonly needs: number
  readonly active: number
  readonly queued: number
  readonly finished: number
  readonly workers: number
}

export interface RowPlan {
  readonly needs: number
  /** The lines of runs, with the one that counts those that are not shown. */
  readonly runs: number
  /** Workers share one line. */
  readonly isFolded: boolean
  /** An empty line stands between the sections. */
  readonly gap: 0 | 1
  /** The lines of the log below its heading; 0 without a log. */
  readonly log: number
  /** Empty lines between runs and workers. */
  readonly filler: number
}

/** From so many rows on the log of the selected run stands below the workers. */
export const LOG_ROWS_MIN = 34
const LOG_LINES_MIN = 5
/** The log shows more than old runs do. */
const FINISHED_BESIDE_LOG_MAX = 5
const NEEDS_KEPT = 2
const RUN_LINES_MIN = 2

export function planRows(counts: RowCounts): RowPlan {
  const { rows, active, queued } = counts
  const hasLog = rows >= LOG_ROWS_MIN
  let { needs } = counts
  let finished = hasLog ? Math.min(counts.finished, FINISHED_BESIDE_LOG_MAX) : counts.finished
  const all = active + queued
  let unfinished = all
  let isFolded = false
  let gap: 0 | 1 = 1
  const runs = () => Math.max(1, unfinished + finished)
  const free = () => {
    const sections = [
      needs === 0 ? 0 : 1 + needs,
      1 + runs(),
      counts.workers === 0 ? 0 : isFolded ? 1 : 1 + counts.workers,
      hasLog ? 1 + LOG_LINES_MIN : 0,
      counts.footer,
    ]
    return rows - sections.reduce((sum, lines) => sum + (lines === 0 ? 0 : gap + lines), 1)
  }
  /** Returns what is left of a count, of which `least` always stay. */
  const shrink = (count: number, least: number) =>
    count - Math.min(Math.max(0, -free()), Math.max(0, count - least))

  if (free() < 0) isFolded = counts.workers > 0
  needs = shrink(needs, NEEDS_KEPT)
  finished = shrink(finished, 0)
  unfinished = shrink(unfinished, Math.max(RUN_LINES_MIN, active + (queued > 0 ? 1 : 0)))
  if (free() < 0) gap = 0
  unfinished = shrink(unfinished, RUN_LINES_MIN)
  // The empty lines may have left more room than was needed.
  unfinished += Math.min(Math.max(0, free()), all - unfinished)
  const left = Math.max(0, free())
  return {
    needs,
    runs: runs(),
    isFolded,
    gap,
    log: hasLog ? LOG_LINES_MIN + left : 0,
    filler: hasLog ? 0 : left,
  }
}

export interface RowWindow {
  readonly from: number
  readonly to: number
  /** Unfinished runs that are not shown. */
  readonly more: number
}

/** The runs that stand in so many lines. @param unfinished the first ones of all @param selected -1 for none */
export function planWindow(all: number, unfinished: number, lines: number, selected: number): RowWindow {
  if (all <= lines) return { from: 0, to: all, more: 0 }
  // Finished runs go without a word.
  if (unfinished <= lines && selected < lines) return { from: 0, to: lines, more: 0 }
  const shown = lines - 1
  const from = selected < shown ? 0 : selected - shown + 1
  const to = from + shown
  const visible = Math.max(0, Math.min(to, unfinished) - from)
  return { from, to, more: unfinished - visible }
}
