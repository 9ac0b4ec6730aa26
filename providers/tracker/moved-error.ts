/** Refusal of all trackers for a ticket that somebody moved elsewhere and that must stay there. */
import { no, type Refused } from '../../core/result.ts'
import { printable } from '../../protocol/schema-errors.ts'

export function refuseMovedTicket(identifier: string, state: string): Refused {
  return no('gone', `${printable(identifier)} was moved to ${printable(state)} meanwhile, and stays there`)
}
