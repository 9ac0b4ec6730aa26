/** The filters above the list of runs; the address holds them. */
import { Button } from '../../elements/button.tsx'
import { FilterSelect } from '../../elements/field.tsx'
import { Segments } from '../../elements/segments.tsx'
import { changeQuery } from '../../router.ts'
import { runs } from '../state/records.ts'
import type { RunFilter } from './run-rows.ts'

const STATES = [
  ['', 'All'],
  ['preparing,running,finalizing', 'In progress'],
  ['queued', 'Queued'],
  ['completed', 'Completed'],
  ['failed', 'Failed'],
  ['cancelled', 'Cancelled'],
] as const

export function RunFilters({
  filter,
  search,
}: {
  readonly filter: RunFilter
  readonly search: { current: HTMLInputElement | null }
}) {
  const all = [...runs.value.values()]
  const options = (names: readonly (string | undefined)[], none: string) => [
    ['', none] as const,
    ...[...new Set(names)].flatMap((name) => (name === undefined ? [] : [[name, name] as const])).sort(),
  ]
  return (
    <div class="filters">
      <Segments
        label="State"
        value={STATES.find(([value]) => value === (filter.status ?? ''))?.[0] ?? ''}
        options={STATES}
        choose={(status) => changeQuery({ status })}
      />
      <input
        ref={search}
        class="input"
        type="search"
        aria-label="Search the runs"
        placeholder="Search"
        value={filter.text ?? ''}
        onInput={(event) => changeQuery({ text: event.currentTarget.value })}
      />
      <FilterSelect
        label="Repository"
        value={filter.repo ?? ''}
        change={(repo) => changeQuery({ repo })}
        options={options(
          all.map(({ ticket }) => ticket.repo),
          'Every repository',
        )}
      />
      <FilterSelect
        label="Worker"
        value={filter.worker ?? ''}
        change={(worker) => changeQuery({ worker })}
        options={options(
          all.map(({ sandbox }) => sandbox.workerName),
          'Every worker',
        )}
      />
      {filter.failure !== undefined && (
        <Button small act={() => changeQuery({ failure: undefined })}>
          Failed with “{filter.failure.slice(0, 40)}” ×
        </Button>
      )}
    </div>
  )
}
