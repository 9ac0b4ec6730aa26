/** The keys of the board act on the selected run: this module makes their commands, questions and outcomes. */
import { reasonOf } from '../../client/errors.ts'
import { beginningOf } from '../../client/run-beginning.ts'
import { hasEnded } from '../../client/run-events.ts'
import type { Run } from '../../protocol/run.ts'
import type { CommandContext } from '../client/run-command.ts'
import { withRunCure } from '../client/run-cures.ts'
import { describeCancelled } from '../commands/run-actions.ts'
import { describeRun } from '../commands/runs.ts'
import { formatCost } from '../output/amounts.ts'
import { formatAge } from '../output/times.ts'

type ActionContext = Pick<CommandContext, 'client' | 'output' | 'present'>

/** As many lines as a page of the log has. */
const LOG_LINES = 1_000

/** The command that shows a run, follows its log or opens its session, by its key. */
export const COMMANDS_OF_KEYS: Readonly<Record<string, (run: Run) => readonly string[]>> = {
  enter: ({ id }) => ['runs', 'show', id],
  l: ({ id }) => ['logs', id, '--tail', String(LOG_LINES), '--follow'],
  a: ({ id }) => ['attach', id],
}

/** Undefined when there is nothing to cancel. */
export function cancelQuestion({ present }: Pick<ActionContext, 'present'>, run: Run): string | undefined {
  const { ticket, status, costTotals } = run
  if (hasEnded(run)) return undefined
  const loss =
    status === 'queued'
      ? `This takes ${ticket.identifier} out of the queue: its place is lost.`
      : `This ends ${ticket.identifier} after ${formatAge(present().now - Date.parse(beginningOf(run)))}` +
        `${costTotals === undefined ? '' : ` and ${formatCost(costTotals)}`}: its agent stops, and nothing more is pushed.`
  return `${loss} Go on? [y/N]`
}

export const cancelRun = ({ client, output }: ActionContext, { id }: Run): Promise<string> =>
  describeOutcome(async () => describeCancelled(output, await client.cancelRun({ id })))

export const retryRun = ({ client, output }: ActionContext, run: Run): Promise<string> =>
  describeOutcome(async () =>
    describeRun(output, await withRunCure(client, 'retry', run, client.retryRun({ id: run.id }))),
  )

/** The board goes on after a refusal, and without a host. */
async function describeOutcome(act: () => Promise<string>): Promise<string> {
  try {
    return await act()
  } catch (error) {
    const cure: unknown = Reflect.get(Object(error), 'cure')
    const message = error instanceof Error ? error.message : reasonOf(error)
    return typeof cure === 'string' ? `${message}; try: ${cure}` : message
  }
}
