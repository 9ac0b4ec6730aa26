/** Adds up what runs have spent since the last local midnight, as `switchyard costs` does for that day. */
import { readCostsOf } from '../../client/spent-costs.ts'
import { formatUsd } from '../../core/format-usd.ts'
import type { Run } from '../../protocol/run.ts'
import type { CommandContext } from '../client/run-command.ts'
import { lastMidnight } from '../output/times.ts'
import { createSpentContext } from './spent-context.ts'

/** Undefined while no price of today is known. @param runs those that may have spent something today */
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
  return formatUsd({
    costUsd: known.reduce((sum, { costUsd }) => sum + costUsd, 0),
    estimated: known.some(({ estimated }) => estimated),
  })
}
