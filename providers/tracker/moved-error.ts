/** What every tracker says of a ticket that somebody has put elsewhere, from where it is not to be dragged back. */
import { no, type Refused } from '../../core/result.ts'
import { printable } from '../../protocol/schema-errors.ts'

export function refuseMovedTicket(identifier: string, state: string): Refused {
  return no('gone', `${printable(identifier)} was put in ${printable(state)} meanwhile, and stays there`)
}
