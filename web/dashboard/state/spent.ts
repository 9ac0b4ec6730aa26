/**
 * Tells what runs have cost, and when: the one source of every amount of a day, on the overview and on the page of costs.
 *
 * The amounts are those of the runs among the records; the page of costs reads all runs first.
 */
import { computed, effect, signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import {
  type CostSum,
  partsOf,
  readCostsOf,
  readInstants,
  type SpentContext,
  type SpentCost,
  sumOf,
} from '../../../client/cost-sums.ts'
import { hasEnded } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import { now } from '../../elements/moments.tsx'
import { dayOfInstant, midnightBefore } from '../../text/days.ts'
import { connection, host } from './host.ts'
import { runs } from './records.ts'

/** Runs report their costs often. */
const PAUSE_MS = 1_000
const READS_AT_ONCE = 4

// ---- instants of costs ---------------------------------------------------------------------------------------------

interface KnownInstants {
  readonly run: Run
  readonly readAt: number
  readonly instants: Promise<ReadonlyMap<string, number>>
}

/** The costs of a run in progress change often, and an event that is read a little later counts for the same day. */
const ACTIVE_MS_MAX = 60_000
const known = new Map<string, KnownInstants>()
let reading = 0
const waiting: (() => void)[] = []

function instantsOf(run: Run): Promise<ReadonlyMap<string, number>> {
  const before = known.get(run.id)
  const isFresh = before !== undefined && !hasEnded(run) && Date.now() - before.readAt < ACTIVE_MS_MAX
  if (before?.run === run || isFresh) return before.instants
  const instants = inTurn(() => readInstants(host, connection, run))
  known.set(run.id, { run, readAt: Date.now(), instants })
  instants.catch(() => known.delete(run.id))
  return instants
}

async function inTurn<T>(read: () => Promise<T>): Promise<T> {
  if (reading >= READS_AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve))
  reading += 1
  try {
    return await read()
  } finally {
    reading -= 1
    waiting.shift()?.()
  }
}

async function readSpent(since: number): Promise<SpentCost[]> {
  const context: SpentContext = { now: Date.now(), dayOf: dayOfInstant, instantsOf }
  const options = { since, areDaysAsked: true }
  const costs = await Promise.all([...runs.value.values()].map((run) => readCostsOf(context, run, options)))
  return costs.flat()
}

// ---- for components ------------------------------------------------------------------------------------------------

/** Keeps a signal at what was spent since an instant, until the returned function is called. */
function followSpent(since: number, set: (spent: readonly SpentCost[]) => void): () => void {
  let isCurrent = true
  let timer: ReturnType<typeof setTimeout> | undefined
  let [asked, answered] = [0, 0]
  const update = () => {
    timer = undefined
    asked += 1
    const question = asked
    readSpent(since).then(
      (spent) => {
        if (!isCurrent || question < answered) return
        answered = question
        set(spent)
      },
      // The state of the connection tells what is wrong, and the next change asks again.
      () => {},
    )
  }
  let isFirst = true
  const stop = effect(() => {
    void runs.value
    timer ??= setTimeout(update, isFirst ? 0 : PAUSE_MS)
    isFirst = false
  })
  return () => {
    isCurrent = false
    clearTimeout(timer)
    stop()
  }
}

const today = computed(() => midnightBefore(now.value, 0))
const spentOfToday = signal<readonly SpentCost[] | undefined>(undefined)
let followers = 0
let stopFollowing = () => {}

/** The sum of this local day; undefined until it is known. */
export const spentToday = computed<CostSum | undefined>(
  () => spentOfToday.value && sumOfToday(spentOfToday.value),
)

export function sumOfToday(spent: readonly SpentCost[]): CostSum {
  const parts = spent.flatMap((cost) => partsOf(cost, 'day', dayOfInstant))
  return sumOf(
    'today',
    parts.filter(({ at }) => at >= today.value),
  )
}

/** Keeps `spentToday` up to date for as long as the component is shown. */
export function useSpentToday(): CostSum | undefined {
  const midnight = today.value
  useEffect(() => {
    followers += 1
    stopFollowing()
    stopFollowing = followSpent(midnight, (spent) => {
      spentOfToday.value = spent
    })
    return () => {
      followers -= 1
      if (followers === 0) stopFollowing()
    }
  }, [midnight])
  return spentToday.value
}

const spentOfRange = signal<{ readonly since: number; readonly spent: readonly SpentCost[] } | undefined>(
  undefined,
)

/** Everything that was spent since an instant, once there is one; what is older stays until the newer answer has come. */
export function useSpentSince(since: number | undefined): readonly SpentCost[] | undefined {
  useEffect(
    () =>
      since === undefined
        ? undefined
        : followSpent(since, (spent) => {
            spentOfRange.value = { since, spent }
          }),
    [since],
  )
  const known = spentOfRange.value
  return known?.since === since ? known?.spent : undefined
}
