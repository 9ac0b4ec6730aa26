/** `switchyard runs wait`: blocks until runs have ended, and tells each change of state on the way. */
import { formatDuration } from '../../core/format-duration.ts'
import type { Run } from '../../protocol/run.ts'
import { findRuns } from '../client/names.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
import { watchRuns } from '../client/watch-runs.ts'
import { whileWatching } from '../client/watching.ts'
import { EXIT, unwrapOrExit } from '../exit.ts'
import { formatCost } from '../output/amounts.ts'
import { formatClockSeconds, parseTimeout } from '../output/times.ts'
import { beginningOf } from './runs.ts'

export interface WaitOptions extends ClientOptions {
  readonly timeout?: string | undefined
}

export async function wait(
  context: CommandContext<WaitOptions>,
  names: readonly string[],
): Promise<number | undefined> {
  const { client, options, present } = context
  const { timeout } = options
  const ms = timeout === undefined ? undefined : unwrapOrExit(parseTimeout(timeout, '--timeout', present()))
  return await waitForRuns(context, await findRuns(client, names), ms)
}

/** Returns the exit code: 0 when all have completed. */
export async function waitForRuns(
  context: CommandContext,
  runs: readonly Run[],
  timeoutMs?: number,
): Promise<number | undefined> {
  const names = runs.map(({ ticket }) => ticket.identifier).join(', ')
  return await whileWatching(context, `${names} ${runs.length === 1 ? 'goes' : 'go'} on`, async (signal) => {
    const { allEnded, runs: latest } = await watchRuns(context.connection, runs, {
      signal,
      timeoutMs,
      onChange: (run) => reportState(context, run, runs.length > 1),
      onEnd: (run) => reportEnd(context, run),
      onLost: () => context.output.warn('connection lost, trying again'),
    })
    if (!allEnded) {
      context.output.note(`Not all have ended in ${formatDuration(timeoutMs ?? 0)}.`)
      return EXIT.refused
    }
    return latest.every(({ status }) => status === 'completed') ? EXIT.done : EXIT.refused
  })
}

/** @param isNamed several runs are watched */
function reportState({ output, present }: CommandContext, run: Run, isNamed: boolean): void {
  const { now, offset } = present()
  const name = isNamed ? `${run.ticket.identifier} ` : ''
  const { status, queueReason, sandbox } = run
  const why = queueReason === undefined ? '' : `: ${queueReason}`
  const where = status === 'preparing' && sandbox.workerName !== undefined ? ` on ${sandbox.workerName}` : ''
  output.note(output.stderr.clean(`${formatClockSeconds(now, offset)} ${name}${status}${where}${why}`))
}

function reportEnd(context: CommandContext, run: Run): void {
  const { output } = context
  if (output.format === 'json') output.jsonLine(run)
  else if (output.format === 'id') output.data(run.id)
  else output.data(describeEnd(context, run))
}

function describeEnd({ output }: CommandContext, run: Run): string {
  const from = Date.parse(run.startedAt ?? beginningOf(run))
  const took = run.finishedAt === undefined ? '' : ` in ${formatDuration(Date.parse(run.finishedAt) - from)}`
  const cost = run.costTotals === undefined ? '' : `, ${formatCost(run.costTotals)}`
  const more = run.status === 'completed' ? run.prUrl : run.error
  return output.stdout.clean(
    `${run.ticket.identifier} ${run.status}${took}${cost}${more === undefined ? '' : `  ${more}`}`,
  )
}
