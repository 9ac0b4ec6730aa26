/**
 * Reads the runs that a hello leaves out and the pages tell of: those that ended today, those with an open pull request,
 * and those that need a person.
 *
 * Requests follow one another, and each hello begins anew. The first load does not contain this file.
 */
import { effect } from '@preact/signals'
import { readFinishedSince } from '../../../client/read-finished-since.ts'
import type { AttentionItem } from '../../../protocol/attention.ts'
import { midnightBefore } from '../../text/days.ts'
import { host } from './host.ts'
import { loadRun } from './live.ts'
import { addRuns, arePullsRead, attention, hellos, isTodayRead, runs } from './records.ts'

/** More entries than a person reads. */
const NAMED_MAX = 200
const PAGE = 200

export function readMissingRuns(): void {
  effect(() => {
    if (hellos.value === 0) return undefined
    const controller = new AbortController()
    void readAfterHello(controller.signal)
    return () => controller.abort()
  })
}

async function readAfterHello(signal: AbortSignal): Promise<void> {
  if (!isTodayRead.peek()) {
    // A request that fails leaves the counts marked; the next connection asks again.
    const isRead = await readToday(signal).catch(() => false)
    if (signal.aborted) return
    isTodayRead.value = isRead
  }
  if (!arePullsRead.peek()) {
    const isRead = await readOpenPulls(signal).catch(() => false)
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

function readToday(signal: AbortSignal): Promise<boolean> {
  let before = runs.peek()
  const onPage = (page: Parameters<typeof addRuns>[0]): void => {
    if (signal.aborted) return
    addRuns(page, before)
    before = runs.peek()
  }
  return readFinishedSince(host, midnightBefore(Date.now(), 0), onPage, { signal })
}

async function readOpenPulls(signal: AbortSignal): Promise<boolean> {
  let last: string | undefined
  for (;;) {
    const before = runs.peek()
    const page = await host.listRuns(
      { prState: ['open', 'draft'], limit: PAGE, ...(last === undefined ? {} : { before: last }) },
      { signal },
    )
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
