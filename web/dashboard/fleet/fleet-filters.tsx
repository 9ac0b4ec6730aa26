/** The filters of the fleet; each stands in the address. */
import type { RefObject } from 'preact'
import { productName } from '../../../client/agent-names.ts'
import { FilterSelect } from '../../elements/field.tsx'
import { Segments } from '../../elements/segments.tsx'
import { changeQuery } from '../../router.ts'
import { formatCount } from '../../text/amounts.ts'
import { countWorkers, type FleetFilter, type FleetRow, fleetAgents, fleetVersions } from './fleet-rows.ts'

export interface FleetFiltersProps {
  readonly rows: readonly FleetRow[]
  readonly filter: FleetFilter
  readonly search: RefObject<HTMLInputElement | null>
}

export function FleetFilters({ rows, filter, search }: FleetFiltersProps) {
  const counts = countWorkers(rows)
  const option = (value: string, text: string, count: number) =>
    [value, `${text} ${formatCount(count)}`] as const
  return (
    <div class="filters" role="search">
      <Segments
        label="State"
        value={filter.state ?? ''}
        choose={(state) => changeQuery({ state })}
        options={[
          option('', 'All', rows.length),
          option('online', 'Online', counts.online),
          option('draining', 'Draining', counts.draining),
          option('offline', 'Offline', counts.offline),
        ]}
      />
      <input
        ref={search}
        type="search"
        class="input"
        aria-label="Search the workers"
        placeholder="Name, address or run"
        value={filter.q ?? ''}
        onInput={(event) => changeQuery({ q: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === 'Escape') event.currentTarget.blur()
        }}
      />
      <ValueFilter
        name="agent"
        all="Every agent"
        values={fleetAgents(rows)}
        filter={filter}
        text={productName}
      />
      <ValueFilter name="version" all="Every version" values={fleetVersions(rows)} filter={filter} />
    </div>
  )
}

interface FleetValueProps {
  readonly name: 'agent' | 'version'
  readonly all: string
  readonly values: readonly string[]
  readonly filter: FleetFilter
  readonly text?: (value: string) => string
}

/** A choice among fewer than two values would filter nothing. */
function ValueFilter({ name, all, values, filter, text = (value) => value }: FleetValueProps) {
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
