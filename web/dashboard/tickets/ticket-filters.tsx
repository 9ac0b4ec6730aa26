/** The filters of the tickets; each stands in the address. */
import { type ReadonlySignal, useComputed } from '@preact/signals'
import type { RefObject } from 'preact'
import { FilterSelect } from '../../elements/field.tsx'
import { Segments } from '../../elements/segments.tsx'
import { changeQuery } from '../../router.ts'
import { formatCount } from '../../text/amounts.ts'
import { PRIORITY_NAMES } from './priority-names.ts'
import { countSituations, type TicketFilter, type TicketRow, valuesOf } from './ticket-rows.ts'

export interface TicketFiltersProps {
  readonly rows: ReadonlySignal<readonly TicketRow[]>
  readonly filter: TicketFilter
  readonly search: RefObject<HTMLInputElement | null>
}

export function TicketFilters({ rows, filter, search }: TicketFiltersProps) {
  const counts = useComputed(() => countSituations(rows.value)).value
  const values = useComputed(() => ({
    state: valuesOf(rows.value, ({ state }) => [state]),
    label: valuesOf(rows.value, ({ labels }) => labels),
    repo: valuesOf(rows.value, ({ repo }) => [repo]),
    priority: valuesOf(rows.value, ({ priority }) => [String(priority)]),
  })).value
  const option = (value: string, text: string, count: number) =>
    [value, `${text} ${formatCount(count)}`] as const
  return (
    <div class="filters" role="search">
      <Segments
        label="Runs of the tickets"
        value={filter.run ?? ''}
        choose={(run) => changeQuery({ run })}
        options={[
          option('', 'All', rows.value.length),
          option('progress', 'In progress', counts.progress),
          option('waits', 'Waiting', counts.waits),
          option('blocked', 'Blocked', counts.blocked),
          option('none', 'Without a run', counts.none),
        ]}
      />
      <input
        ref={search}
        type="search"
        class="input"
        aria-label="Search the tickets"
        placeholder="Search"
        value={filter.q ?? ''}
        onInput={(event) => changeQuery({ q: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === 'Escape') event.currentTarget.blur()
        }}
      />
      <ValueFilter name="state" all="Every state" values={values.state} {...filter} />
      <ValueFilter name="label" all="Every label" values={values.label} {...filter} />
      <ValueFilter name="repo" all="Every repository" values={values.repo} {...filter} />
      <ValueFilter
        name="priority"
        all="Every priority"
        values={values.priority}
        text={(value) => PRIORITY_NAMES[Number(value)] ?? value}
        {...filter}
      />
    </div>
  )
}

interface ValueFilterProps extends TicketFilter {
  readonly name: 'state' | 'label' | 'repo' | 'priority'
  readonly all: string
  readonly values: readonly string[]
  readonly text?: (value: string) => string
}

/** A choice among fewer than two values would filter nothing. */
function ValueFilter({ name, all, values, text = (value) => value, ...filter }: ValueFilterProps) {
  const chosen = filter[name] ?? ''
  if (values.length < 2 && chosen === '') return null
  const offered = chosen === '' || values.includes(chosen) ? values : [chosen, ...values]
  return (
    <FilterSelect
      label={all}
      value={chosen}
      change={(value) => changeQuery({ [name]: value })}
      options={[['', all], ...offered.map((value) => [value, text(value)] as const)]}
    />
  )
}
