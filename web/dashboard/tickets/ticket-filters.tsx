/** The filters of the tickets, each of which stands in the address, and what stands in place of an empty list. */
import type { TicketSort } from '../../../protocol/ticket-filter.ts'
import type { TicketSummary } from '../../../protocol/ticket-query.ts'
import { Button } from '../../elements/button.tsx'
import { FilterSelect, Segments } from '../../elements/field.tsx'
import { now } from '../../elements/moments.tsx'
import { Empty } from '../../elements/placeholder.tsx'
import { changeQuery } from '../../router.ts'
import { countOf, formatCount } from '../../text/amounts.ts'
import { settingAddress } from '../addresses.ts'
import { SearchFilter, ValueFilter } from '../list-filters.tsx'
import { config, tracker } from '../state/records.ts'
import { eligibleSentence, PRIORITY_NAMES, pollSentence, trackerName } from '../tracker-words.ts'
import { type AskedTickets, TICKET_FILTERS } from './ticket-rows.ts'

export interface TicketFiltersProps {
  readonly asked: AskedTickets
  /** Undefined until it is known. */
  readonly summary: TicketSummary | undefined
}

const SORTS: readonly (readonly [TicketSort, string])[] = [
  ['queue', 'As they are taken'],
  ['newest', 'Newest first'],
  ['oldest', 'Oldest first'],
  ['changed', 'Last changed first'],
]

export function TicketFilters({ asked: { words, sort }, summary }: TicketFiltersProps) {
  const { states = [], labels = [], repos = [], priorities = [], runs } = summary ?? {}
  const all = runs && runs.progress + runs.waits + runs.blocked + runs.none
  const option = (value: string, text: string, count: number | undefined) =>
    [value, count === undefined ? text : `${text} ${formatCount(count)}`] as const
  return (
    <div class="filters" role="search">
      <Segments
        label="Runs of the tickets"
        value={words.run ?? ''}
        choose={(run) => changeQuery({ run })}
        options={[
          option('', 'All', all),
          option('progress', 'In progress', runs?.progress),
          option('waits', 'Waiting', runs?.waits),
          option('blocked', 'Blocked', runs?.blocked),
          option('none', 'Without a run', runs?.none),
        ]}
      />
      <SearchFilter label="Search the tickets" group="Tickets" value={words.q} />
      <ValueFilter name="state" all="Every state" values={states} chosen={words.state} />
      <ValueFilter name="label" all="Every label" values={labels} chosen={words.label} />
      <ValueFilter name="repo" all="Every repository" values={repos} chosen={words.repo} />
      <ValueFilter
        name="priority"
        all="Every priority"
        values={priorities.map(String)}
        chosen={words.priority}
        text={(value) => PRIORITY_NAMES[Number(value)] ?? value}
      />
      <FilterSelect
        label="Order"
        value={sort}
        change={(chosen) => changeQuery({ sort: chosen === 'queue' ? undefined : chosen })}
        options={SORTS}
      />
    </div>
  )
}

/** Says why the list of tickets is empty. */
export function NoTickets() {
  const driver = config.value?.tracker.driver
  const { state, error } = tracker.value
  if (state !== 'connected')
    return (
      <Empty
        title={`${trackerName(driver)} is not connected`}
        link={{ to: '/connect#tracker', text: 'Connect the tracker' }}
      >
        {error ?? 'No ticket is read until it is.'}
      </Empty>
    )
  const rules = config.value?.tracker.eligible
  return (
    <Empty
      title="No ticket is eligible"
      link={{ to: settingAddress('tracker.eligible.states'), text: 'Change which tickets are eligible' }}
    >
      {pollSentence(driver, tracker.value, now.value)} {rules !== undefined && eligibleSentence(rules)}
    </Empty>
  )
}

export const NoTicketFits = ({ count }: { readonly count: number | undefined }) => (
  <Empty
    title="No ticket fits the filters"
    button={
      <Button act={() => changeQuery(Object.fromEntries(TICKET_FILTERS.map((name) => [name, undefined])))}>
        Show all {count === undefined ? 'tickets' : countOf(count, 'ticket')}
      </Button>
    }
  />
)
