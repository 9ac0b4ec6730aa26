/** Says why the list of tickets is empty. */

import { Button } from '../../elements/button.tsx'
import { now } from '../../elements/moments.tsx'
import { Empty } from '../../elements/placeholder.tsx'
import { changeQuery } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { settingAddress } from '../addresses.ts'
import { config, tracker } from '../state/records.ts'
import { eligibleSentence, pollSentence, trackerName } from '../tracker-words.ts'
import { TICKET_FILTERS } from './ticket-rows.ts'

export function NoTickets() {
  const driver = config.value?.tracker.driver
  const { state, error } = tracker.value
  if (state !== 'connected')
    return (
      <Empty
        title={`${trackerName(driver)} is not connected`}
        button={
          <a class="button" href="/connect#tracker">
            Connect the tracker
          </a>
        }
      >
        {error ?? 'No ticket is read until it is.'}
      </Empty>
    )
  const rules = config.value?.tracker.eligible
  return (
    <Empty
      title="No ticket is eligible"
      button={
        <a class="button" href={settingAddress('tracker.eligible.states')}>
          Change which tickets are eligible
        </a>
      }
    >
      {pollSentence(driver, tracker.value, now.value)} {rules !== undefined && eligibleSentence(rules)}
    </Empty>
  )
}

export const NoTicketFits = ({ count }: { readonly count: number }) => (
  <Empty
    title="No ticket fits the filters"
    button={
      <Button act={() => changeQuery(Object.fromEntries(TICKET_FILTERS.map((name) => [name, undefined])))}>
        Show all {countOf(count, 'ticket')}
      </Button>
    }
  />
)
