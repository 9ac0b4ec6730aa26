/** What every tracker says of a ticket that somebody has put elsewhere, from where it is not to be dragged back. */
import { type No, no } from '../../core/result.ts'
import { printable } from '../../protocol/schema-errors.ts'

export function elsewhere(identifier: string, state: string): No {
  return no('gone', `${printable(identifier)} was put in ${printable(state)} meanwhile, and stays there`)
}
