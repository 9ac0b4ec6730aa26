/** `switchyard runs wait`: blocks until runs have ended, and tells each change of state on the way. */
import { DashboardFeed } from '../../client/dashboard-feed.ts'
import { hasEnded } from '../../client/run-events.ts'
import { formatDuration } from '../../core/format-duration.ts'
import type { Run } from '../../protocol/run.ts'
import { findRuns } from '../client/names.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
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
    const ended = await watchRuns(context, runs, signal, timeoutMs)
    if (ended === undefined) {
      context.output.note(`Not all have ended in ${formatDuration(timeoutMs ?? 0)}.`)
      return EXIT.refused
    }
    return ended.every(({ status }) => status === 'completed') ? EXIT.done : EXIT.refused
  })
}

/** Resolves with the runs as they ended; undefined when the time was over before. */
function watchRuns(
  context: CommandContext,
  runs: readonly Run[],
  signal: AbortSignal,
  timeoutMs: number | undefined,
): Promise<readonly Run[] | undefined> {
  const { connection, output } = context
  const latest = new Map(runs.map((run) => [run.id, run]))
  const reported = new Set<string>()
  return new Promise((resolve, reject) => {
    const take = (run: Run) => {
      if (!latest.has(run.id)) return
      const before = latest.get(run.id)
      latest.set(run.id, run)
      if (hasEnded(run)) reportEnd(run)
      else if (before?.status !== run.status || before.queueReason !== run.queueReason)
        reportState(context, run, runs.length > 1)
      if ([...latest.values()].every(hasEnded)) finish([...latest.values()])
    }
    const reportEnd = (run: Run) => {
      if (reported.has(run.id)) return
      reported.add(run.id)
      if (output.format === 'json') output.jsonLine(run)
      else if (output.format === 'id') output.data(run.id)
      else output.data(describeEnd(context, run))
    }
    const feed = new DashboardFeed(connection, {
      onFrame: (frame) => {
        if (frame.type === 'hello') for (const run of frame.runs) take(run)
        else if (frame.type === 'run-updated') take(frame.run)
      },
      onLost: () => output.warn('connection lost, trying again'),
      onEnd: (error) => finish(error),
    })
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => finish(undefined), timeoutMs)
    function finish(outcome: readonly Run[] | Error | undefined): void {
      clearTimeout(timer)
      feed.close()
      if (outcome instanceof Error) reject(outcome)
      else resolve(outcome)
    }
    signal.addEventListener('abort', () => finish(new Error('stopped')), { once: true })
    for (const run of runs) take(run)
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

function describeEnd({ output }: CommandContext, run: Run): string {
  const from = Date.parse(run.startedAt ?? beginningOf(run))
  const took = run.finishedAt === undefined ? '' : ` in ${formatDuration(Date.parse(run.finishedAt) - from)}`
  const cost = run.costTotals === undefined ? '' : `, ${formatCost(run.costTotals)}`
  const more = run.status === 'completed' ? run.prUrl : run.error
  return output.stdout.clean(
    `${run.ticket.identifier} ${run.status}${took}${cost}${more === undefined ? '' : `  ${more}`}`,
  )
}
