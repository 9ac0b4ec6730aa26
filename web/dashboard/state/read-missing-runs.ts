/**
 * Reads the runs that the page shows beside those that change: the unfinished ones and the newest that ended, then those
 * that ended today, those with an open pull request, and those that need a person.
 *
 * Requests follow one another, and each hello begins anew. The first load does not contain this file.
 */
import { batch, effect } from '@preact/signals'
import { hasEnded } from '../../../client/run-events.ts'
import type { AttentionItem } from '../../../protocol/attention.ts'
import type { Run } from '../../../protocol/run.ts'
import type { RunListQuery } from '../../../protocol/run-query.ts'
import { midnightBefore } from '../../text/days.ts'
import { FOR_ROWS, host } from './host.ts'
import { arePullsRead, attention, hellos, isLoaded, isTodayRead, runs } from './records.ts'

/** More entries than a person reads. */
const NAMED_MAX = 200
const PAGE = 200
/** The overview shows a dozen, and the palette finds them all. */
const ENDED_MAX = 100
const RETRY_MS = 1_000
const UNFINISHED: Run['status'][] = ['queued', 'preparing', 'running', 'finalizing']
const ENDED: Run['status'][] = ['completed', 'failed', 'cancelled']

export function readMissingRuns(): void {
  effect(() => {
    if (hellos.value === 0) return undefined
    const controller = new AbortController()
    void readAfterHello(controller.signal)
    return () => controller.abort()
  })
}

async function readAfterHello(signal: AbortSignal): Promise<void> {
  isTodayRead.value = false
  arePullsRead.value = false
  while (!(await readRecent(signal).catch(() => false))) {
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    if (signal.aborted) return
  }
  if (!isTodayRead.peek()) {
    // A request that fails leaves the counts marked; the next connection asks again.
    const today = new Date(midnightBefore(Date.now(), 0)).toISOString()
    const isRead = await readAll({ endedSince: today }, signal).catch(() => false)
    if (signal.aborted) return
    isTodayRead.value = isRead
  }
  if (!arePullsRead.peek()) {
    const isRead = await readAll({ prState: ['open', 'draft'] }, signal).catch(() => false)
    if (signal.aborted) return
    arePullsRead.value = isRead
  }
  const asked = new Set<string>()
  const stop = effect(() => {
    const items = attention.value
    void readNamed(items, asked, signal)
  })
  signal.addEventListener('abort', stop)
}

/** Ended runs that are known stay, since pages may have asked for them. Returns false when it was aborted. */
async function readRecent(signal: AbortSignal): Promise<boolean> {
  const before = runs.peek()
  const [unfinished, ended] = await Promise.all([
    readUnfinished(signal),
    host.listRuns({ ...FOR_ROWS, status: ENDED, limit: ENDED_MAX }, { signal }),
  ])
  if (signal.aborted) return false
  batch(() => {
    const now = runs.peek()
    // A run that was pushed meanwhile is newer than the answer.
    const isPushed = (id: string): boolean => now.get(id) !== before.get(id)
    const kept = [...now.values()].filter((run) => hasEnded(run) || isPushed(run.id))
    const read = [...ended, ...unfinished].filter(({ id }) => !isPushed(id))
    runs.value = new Map([...kept, ...read].map((run) => [run.id, run]))
    const hasAll = ended.length < ENDED_MAX
    isTodayRead.value = hasAll
    arePullsRead.value = hasAll
    isLoaded.value = true
  })
  return true
}

async function readUnfinished(signal: AbortSignal): Promise<Run[]> {
  const read: Run[] = []
  for (;;) {
    const last = read.at(-1)?.id
    const place = last === undefined ? {} : { before: last }
    const page = await host.listRuns({ ...FOR_ROWS, status: UNFINISHED, limit: PAGE, ...place }, { signal })
    read.push(...page)
    if (page.length < PAGE) return read
  }
}

async function readAll(query: RunListQuery, signal: AbortSignal): Promise<boolean> {
  let last: string | undefined
  for (;;) {
    const before = runs.peek()
    const place = last === undefined ? {} : { before: last }
    const page = await host.listRuns({ ...FOR_ROWS, ...query, limit: PAGE, ...place }, { signal })
    if (signal.aborted) return false
    addRuns(page, before)
    last = page.at(-1)?.id
    if (page.length < PAGE) return true
  }
}

async function readNamed(
  items: readonly AttentionItem[],
  asked: Set<string>,
  signal: AbortSignal,
): Promise<void> {
  for (const { runId } of items) {
    if (signal.aborted || asked.size >= NAMED_MAX) return
    if (runId === undefined || runs.peek().has(runId) || asked.has(runId)) continue
    asked.add(runId)
    // Without its run an entry says what the host says.
    await loadRun(runId).catch(() => {})
  }
}

/** Reads a run that is not among the records. */
export async function loadRun(id: string): Promise<void> {
  const before = runs.peek()
  addRuns([await host.readRun({ id })], before)
}

/**
 * Adds runs that a request has read; what was pushed meanwhile is newer than the answer.
 *
 * @param before the records when the request began; without them only what is missing is added
 */
export function addRuns(read: readonly Run[], before?: ReadonlyMap<string, Run>): void {
  const changed = new Map(runs.value)
  for (const run of read) if (changed.get(run.id) === before?.get(run.id)) changed.set(run.id, run)
  runs.value = changed
}
