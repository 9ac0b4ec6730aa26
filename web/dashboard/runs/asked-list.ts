/**
 * Reads the runs that the address asks for: a page, the next one when somebody comes to its end, and their summary.
 *
 * Runs that are pushed meanwhile join by themselves while the newest stand first: that list is derived from the records.
 */
import { computed, type ReadonlySignal, signal, useComputed } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { Run } from '../../../protocol/run.ts'
import type { RunSummary } from '../../../protocol/run-query.ts'
import { now } from '../../elements/moments.tsx'
import { showError } from '../../elements/toasts.ts'
import { address } from '../../router.ts'
import { midnightBefore } from '../../text/days.ts'
import { addRuns } from '../state/add-runs.ts'
import { totals } from '../state/current-totals.ts'
import { host } from '../state/host.ts'
import { config, runs } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { type AskedRuns, askedOf, isReadable, type ListedRuns, shownRuns, withFirstPage } from './run-rows.ts'

const PAGE = 50
/** Words are typed letter by letter. */
const TYPING_MS = 150

export interface AskedList {
  readonly asked: AskedRuns
  readonly shown: ReadonlySignal<readonly Run[]>
  /** Undefined until the host has answered what is asked now. */
  readonly listed: ListedRuns | undefined
  readonly summary: RunSummary | undefined
  /** How many runs fit; undefined until it is known. */
  readonly count: number | undefined
  readonly error: unknown
  readonly retry: () => void
  readonly readMore: () => void
}

interface Keyed {
  readonly key: string
}

/** The last answer; whoever comes back to the page finds the rows that were read. */
const answer = signal<(ListedRuns & Keyed) | undefined>(undefined)

const today = computed(() => midnightBefore(now.value, 0))

export function useAskedList(): AskedList {
  const asked = useComputed(() => askedOf(address.value.query, today.value))
  const key = useComputed(() => JSON.stringify(asked.value))
  const listed = useComputed(() => (answer.value?.key === key.value ? answer.value : undefined))
  const shown = useComputed(() =>
    config.value === undefined || answer.value === undefined
      ? []
      : shownRuns(runs.value, asked.value, listed.value, config.value),
  )
  const first = useRequest(key.value, async (signal) => {
    if (asked.peek().words.q !== undefined) await pause(TYPING_MS, signal)
    const page = await readPage(asked.peek(), [], signal)
    if (!signal.aborted) answer.value = { ...withFirstPage(listed.peek(), page), key: key.peek() }
  })
  const { queued, inProgress, finishedToday } = totals.value
  const summary = useRequest(
    `${queued} ${inProgress} ${finishedToday} ${key.value}`,
    async (signal): Promise<RunSummary & Keyed> => {
      const asks = key.peek()
      await pause(TYPING_MS, signal)
      return { ...(await host.summarizeRuns(asked.peek().filter, { signal })), key: asks }
    },
  )
  const isReading = useRef(false)
  const readMore = (): void => {
    const before = listed.peek()
    if (isReading.current || before === undefined || !isReadable(asked.peek().sort, before)) return
    const asks = key.peek()
    isReading.current = true
    readPage(asked.peek(), before.ids)
      .then(({ ids, isComplete }) => {
        if (key.peek() === asks)
          answer.value = { key: asks, ids: [...new Set([...before.ids, ...ids])], isComplete }
      }, showError)
      .finally(() => {
        isReading.current = false
      })
  }
  return {
    asked: asked.value,
    shown,
    listed: listed.value,
    summary: summary.data,
    count: listed.value?.isComplete ? shown.value.length : countOf(summary.data, key.value),
    error: first.error,
    retry: first.reload,
    readMore,
  }
}

const countOf = (summary: (RunSummary & Keyed) | undefined, key: string): number | undefined =>
  summary?.key === key ? summary.count : undefined

async function readPage(
  { filter, sort }: AskedRuns,
  before: readonly string[],
  signal?: AbortSignal,
): Promise<ListedRuns> {
  const known = runs.peek()
  const last = before.at(-1)
  const place =
    sort !== 'newest'
      ? { sort, ...(before.length === 0 ? {} : { skip: before.length }) }
      : last === undefined
        ? {}
        : { before: last }
  const page = await host.listRuns(
    { ...filter, ...place, limit: PAGE },
    signal === undefined ? {} : { signal },
  )
  addRuns(page, known)
  return { ids: page.map(({ id }) => id), isComplete: page.length < PAGE }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })
