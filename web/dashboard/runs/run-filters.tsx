/** The filters above the list of runs; the address holds them. */
import { productName } from '../../../client/agent-names.ts'
import type { RunSort } from '../../../protocol/run-filter.ts'
import type { RunSummary } from '../../../protocol/run-query.ts'
import { Button } from '../../elements/button.tsx'
import { FilterSelect } from '../../elements/field.tsx'
import { now } from '../../elements/moments.tsx'
import { Segments } from '../../elements/segments.tsx'
import { changeQuery } from '../../router.ts'
import { dayOfInstant, midnightBefore } from '../../text/days.ts'
import type { AskedRuns } from './run-rows.ts'
import { ViewPicker } from './view-picker.tsx'

const STATES = [
  ['', 'All'],
  ['preparing,running,finalizing', 'In progress'],
  ['queued', 'Queued'],
  ['completed', 'Completed'],
  ['failed', 'Failed'],
  ['cancelled', 'Cancelled'],
] as const

const TIMES = [
  ['', 'Any time'],
  ['today', 'Created today'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
] as const
const DAYS = 'days'

/** `Completed, failed or cancelled`. */
const wordsOf = (status: string): string => {
  const words = status.replaceAll(',', ', ').replace(/, (\w+)$/, ' or $1')
  return words.charAt(0).toUpperCase() + words.slice(1)
}

const SORTS: readonly (readonly [RunSort, string])[] = [
  ['newest', 'Newest first'],
  ['oldest', 'Oldest first'],
  ['cost', 'Dearest first'],
  ['length', 'Longest first'],
]

export interface RunFiltersProps {
  readonly asked: AskedRuns
  /** Undefined until it is known. */
  readonly summary: RunSummary | undefined
  readonly search: { current: HTMLInputElement | null }
}

export function RunFilters({ asked: { words, sort }, summary, search }: RunFiltersProps) {
  const { status = '', failure } = words
  return (
    <div class="filters" role="search">
      <Segments
        label="State"
        value={status}
        options={STATES}
        choose={(chosen) => changeQuery({ status: chosen })}
      />
      {!STATES.some(([state]) => state === status) && (
        <Button small act={() => changeQuery({ status: undefined })}>
          {wordsOf(status)} ×
        </Button>
      )}
      <input
        ref={search}
        class="input"
        type="search"
        aria-label="Search the runs"
        placeholder="Search"
        value={words.q ?? ''}
        onInput={(event) => changeQuery({ q: event.currentTarget.value })}
      />
      <NameFilter
        name="repo"
        label="Repository"
        none="Every repository"
        words={words}
        names={summary?.repos}
      />
      <NameFilter name="agent" label="Agent" none="Every agent" words={words} names={summary?.agents} />
      <NameFilter name="worker" label="Worker" none="Every worker" words={words} names={summary?.workers} />
      <TimeFilter words={words} />
      <FilterSelect
        label="Order"
        value={sort}
        change={(chosen) => changeQuery({ sort: chosen === 'newest' ? undefined : chosen })}
        options={SORTS}
      />
      {words.ended !== undefined && (
        <Button small act={() => changeQuery({ ended: undefined })}>
          {words.ended === 'today' ? 'Ended today' : `Ended since ${words.ended}`} ×
        </Button>
      )}
      {failure !== undefined && (
        <Button small act={() => changeQuery({ failure: undefined })}>
          Failed with “{failure.slice(0, 40)}” ×
        </Button>
      )}
      <ViewPicker />
    </div>
  )
}

type Words = Pick<AskedRuns, 'words'>

interface NameFilterProps extends Words {
  readonly name: 'repo' | 'agent' | 'worker'
  readonly label: string
  readonly none: string
  readonly names: readonly string[] | undefined
}

function NameFilter({ name, label, none, words, names = [] }: NameFilterProps) {
  const chosen = words[name] ?? ''
  const offered = chosen === '' || names.includes(chosen) ? names : [chosen, ...names]
  return (
    <FilterSelect
      label={label}
      value={chosen}
      change={(value) => changeQuery({ [name]: value })}
      options={[['', none], ...offered.map((each) => [each, productName(each)] as const)]}
    />
  )
}

/** A time up to now, or two days. */
function TimeFilter({ words: { since = '', until = '' } }: Words) {
  const isNamed = until === '' && TIMES.some(([time]) => time === since)
  const weekAgo = dayOfInstant(midnightBefore(now.value, 6))
  return (
    <>
      <FilterSelect
        label="Created"
        value={isNamed ? since : DAYS}
        change={(time) => changeQuery({ since: time === DAYS ? weekAgo : time, until: undefined })}
        options={[...TIMES, [DAYS, 'Between two days']]}
      />
      {!isNamed && (
        <>
          <DayInput name="since" label="First day" day={since} />
          <DayInput name="until" label="Last day" day={until} />
        </>
      )}
    </>
  )
}

interface DayInputProps {
  readonly name: 'since' | 'until'
  readonly label: string
  readonly day: string
}

const DayInput = ({ name, label, day }: DayInputProps) => (
  <input
    class="input"
    type="date"
    aria-label={label}
    value={day}
    onChange={(event) => changeQuery({ [name]: event.currentTarget.value })}
  />
)
