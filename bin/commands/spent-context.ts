/** The surroundings in which a command reads costs: this machine's local days, and the events of runs. */
import { readInstants, type SpentContext } from '../../client/spent-costs.ts'
import type { CommandContext } from '../client/run-command.ts'
import { formatLocalDay } from '../output/times.ts'

export function createSpentContext({
  client,
  connection,
  present,
}: Pick<CommandContext, 'client' | 'connection' | 'present'>): SpentContext {
  const { now, offset } = present()
  return {
    now,
    dayOf: (at) => formatLocalDay(at, offset),
    instantsOf: (run) => readInstants(client, connection, run),
  }
}
