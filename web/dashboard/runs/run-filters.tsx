/** The filters above the list of runs; the address holds them. */
import { useSignal } from '@preact/signals'
import { productName } from '../../../client/agent-names.ts'
import type { RunSort } from '../../../protocol/run-filter.ts'
import type { RunSummary } from '../../../protocol/run-query.ts'
import { Button } from '../../elements/button.tsx'
import { showDialog } from '../../elements/dialog.tsx'
import { bound, FilterSelect, Segments, TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { now } from '../../elements/moments.tsx'
import { address, changeQuery, navigate } from '../../router.ts'
import { dayOfInstant, midnightBefore } from '../../text/days.ts'
import { capitalized } from '../../text/sentences.ts'
import { SearchFilter, ValueFilter } from '../list-filters.tsx'
import type { AskedRuns } from './run-rows.ts'
import { changeView, savedViews, whyNotSaved } from './saved-views.ts'

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
const wordsOf = (status: string): string =>
  capitalized(status.replaceAll(',', ', ').replace(/, (\w+)$/, ' or $1'))

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
}

export function RunFilters({ asked: { words, sort }, summary }: RunFiltersProps) {
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
      <SearchFilter label="Search the runs" group="Runs" value={words.q} />
      <ValueFilter
        name="repo"
        label="Repository"
        all="Every repository"
        values={summary?.repos}
        chosen={words.repo}
      />
      <ValueFilter
        name="agent"
        label="Agent"
        all="Every agent"
        values={summary?.agents}
        chosen={words.agent}
        text={productName}
      />
      <ValueFilter
        name="worker"
        label="Worker"
        all="Every worker"
        values={summary?.workers}
        chosen={words.worker}
      />
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

/** A time up to now, or two days. */
function TimeFilter({ words: { since = '', until = '' } }: Pick<AskedRuns, 'words'>) {
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

// ---- saved views ---------------------------------------------------------------------------------------------------

/** Goes to a saved view of the runs, saves the filters of the address as one, and deletes it. */
function ViewPicker() {
  const views = Object.entries(savedViews.value)
  const query = address.value.query.toString()
  const [current] = views.find(([, saved]) => saved === query) ?? []
  return (
    <>
      {views.length > 0 && (
        <FilterSelect
          label="Saved view"
          value={current ?? ''}
          change={(name) => navigate(`/runs?${savedViews.value[name] ?? ''}`)}
          options={[['', 'Saved views'], ...views.map(([name]) => [name, name] as const)]}
        />
      )}
      {current === undefined && query !== '' && (
        <Button small act={() => showDialog((close) => <SaveView query={query} close={close} />)}>
          Save view…
        </Button>
      )}
      {current !== undefined && (
        <Button small act={() => changeView(current, undefined)}>
          Delete view
        </Button>
      )}
    </>
  )
}

function SaveView({ query, close }: { readonly query: string; readonly close: () => void }) {
  const name = useSignal('')
  return (
    <FormDialog
      title="Save this view"
      act="Save view"
      busyWord="Saving"
      unavailable={whyNotSaved(name.value.trim(), savedViews.value)}
      send={async () => changeView(name.value.trim(), query)}
      close={close}
    >
      <TextField label="Name" hint="This browser keeps it." {...bound(name)} autoFocus />
    </FormDialog>
  )
}
