/** The totals of the records as they are now. */
import { computed } from '@preact/signals'
import { now } from '../../elements/moments.tsx'
import { formatCount } from '../../text/amounts.ts'
import { attention, attentionMore, isTodayRead, runs, workers } from './records.ts'
import { totalsOf } from './totals.ts'

const MINUTE_MS = 60_000
/** The day of a total changes at midnight only. */
const minute = computed(() => Math.floor(now.value / MINUTE_MS) * MINUTE_MS)

export const totals = computed(() =>
  totalsOf({
    runs: runs.value.values(),
    workers: workers.value,
    attention: attention.value,
    attentionMore: attentionMore.value,
    now: minute.value,
  }),
)

/** Stands before what is derived from the runs that ended today, until all of them are there. */
export const incompleteMark = (): string => (isTodayRead.value ? '' : '≥')

export const countOfToday = (count: number): string => `${incompleteMark()}${formatCount(count)}`
