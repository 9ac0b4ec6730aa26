/**
 * Adds up the costs of runs since the last local midnight, and makes the surroundings in which a command reads costs.
 */
import { readCostsOf, readInstants, type SpentContext } from '../../../client/cost-sums.ts'
import { formatMoney } from '../../../protocol/format.ts'
import type { Run } from '../../../protocol/run.ts'
import { formatLocalDay, lastMidnight } from '../../output/times.ts'
import type { CommandContext } from '../command/run-command.ts'

/**
 * Undefined while no price of today is known.
 *
 * @param runs those that may have spent something today
 */
export async function readSpentToday(
  context: Pick<CommandContext, 'client' | 'connection' | 'present'>,
  runs: readonly Run[],
): Promise<string | undefined> {
  const options = { since: lastMidnight(context.present()), areDaysAsked: false }
  const spentContext = createSpentContext(context)
  const spent = await Promise.all(runs.map((run) => readCostsOf(spentContext, run, options)))
  const known = spent.flat().flatMap(({ entry: { costUsd, estimated } }) => {
    return costUsd === undefined ? [] : [{ costUsd, estimated }]
  })
  if (known.length === 0) return undefined
  return formatMoney({
    costUsd: known.reduce((sum, { costUsd }) => sum + costUsd, 0),
    estimated: known.some(({ estimated }) => estimated),
  })
}

/** The surroundings in which a command reads costs: this machine's local days, and the events of runs. */
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
