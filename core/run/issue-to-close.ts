/** Finds the issue that a run's pull request closes when it is merged. */
import type { ServiceConfig } from '../../protocol/config.ts'
import type { Ticket } from '../../protocol/run.ts'
import { isTrackerAtCodeHost } from '../settings/issue-tracker.ts'
import { isSameName } from '../tickets/names.ts'

/** The id of a ticket that is an issue: its repository and its number. */
const ISSUE_ID = /^([^#]+\/[^#]+)#([1-9]\d{0,14})$/

/**
 * Returns the number of the issue that is the ticket; undefined when the ticket is none, or when it is of another
 * repository or another code host, where a reference by number would name something else.
 */
export function issueToClose(
  { id }: Pick<Ticket, 'id'>,
  remote: string,
  config: ServiceConfig,
): number | undefined {
  const [, repository = '', number = ''] = ISSUE_ID.exec(id) ?? []
  if (!isTrackerAtCodeHost(config) || !isSameName(repository, remote)) return undefined
  return Number(number)
}
