/** `switchyard workers drain`: no new runs for a worker, and with `--wait` until it has none left. */
import { DashboardFeed } from '../../client/dashboard-feed.ts'
import { beginningOf } from '../../client/run-beginning.ts'
import { hasEnded } from '../../client/run-events.ts'
import { formatDuration } from '../../core/format-duration.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import type { Run } from '../../protocol/run.ts'
import type { WorkerView } from '../../protocol/worker.ts'
import { findWorker } from '../client/names.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
import { whileWatching } from '../client/watching.ts'
import { EXIT, ExitError, unwrapOrExit } from '../exit.ts'
import { formatAgeOf, parseTimeout } from '../output/times.ts'
import { printChanged } from './worker-actions.ts'

export interface DrainOptions extends ClientOptions {
  readonly wait?: boolean | undefined
  readonly timeout?: string | undefined
}

export async function drain(
  context: CommandContext<DrainOptions>,
  name: string,
): Promise<number | undefined> {
  const { client, output, options, present } = context
  const { wait, timeout } = options
  if (timeout !== undefined && wait !== true)
    throw new ExitError(
      EXIT.usage,
      '--timeout is for --wait',
      `switchyard workers drain ${quoteWord(name)} --wait --timeout ${timeout}`,
    )
  const ms = timeout === undefined ? undefined : unwrapOrExit(parseTimeout(timeout, '--timeout', present()))
  const worker = await findWorker(client, name)
  const fleet = await client.drainWorker({ id: worker.id })
  if (wait !== true) {
    printChanged(context, fleet, worker.id, (each) => `${each.name} drains: no new runs.`)
    return undefined
  }
  output.note(`${worker.name} drains: no new runs. Ctrl-C stops waiting, not the drain.`)
  return await waitUntilEmpty(context, worker, ms)
}

async function waitUntilEmpty(
  context: CommandContext,
  worker: WorkerView,
  timeoutMs: number | undefined,
): Promise<number | undefined> {
  const { output } = context
  const { id, name } = worker
  const from = performance.now()
  return await whileWatching(context, `the drain of ${name} goes on`, async (signal) => {
    const empty = await watchWorker(context, worker, signal, timeoutMs)
    if (typeof empty === 'string') {
      const rest = empty === '' ? '' : `: ${empty}`
      output.note(`${name} is not empty after ${formatDuration(timeoutMs ?? 0)}${rest}; its drain goes on.`)
      output.next(
        `switchyard workers drain ${quoteWord(name)} --wait`,
        `switchyard workers enable ${quoteWord(name)}`,
      )
      return EXIT.refused
    }
    if (output.format === 'json') output.json(empty)
    else if (output.format === 'id') output.data(id)
    else
      output.data(output.stdout.clean(`${name} is empty after ${formatDuration(performance.now() - from)}.`))
    output.next(`switchyard workers enable ${quoteWord(name)}`)
    return undefined
  })
}

/** Resolves with the worker when it has no run and no terminal left, or with what is left when the time was over. */
function watchWorker(
  context: CommandContext,
  worker: WorkerView,
  signal: AbortSignal,
  timeoutMs: number | undefined,
): Promise<WorkerView | string> {
  const { connection, output } = context
  const runs = new Map<string, Run>()
  let reported = ''
  let rest = ''
  return new Promise((resolve, reject) => {
    const judge = (workers: readonly WorkerView[]) => {
      const found = workers.find(({ id }) => id === worker.id)
      if (found === undefined)
        finish(new ExitError(EXIT.refused, `${worker.name} was revoked`, 'switchyard workers'))
      else if (found.activeRuns === 0 && (found.attachSessions ?? 0) === 0) finish(found)
      else report(found)
    }
    const report = (found: WorkerView) => {
      const left = [...runs.values()].filter((run) => run.sandbox.workerId === worker.id && isExecuting(run))
      const { activeRuns, attachSessions = 0, connection: line } = found
      const attached = (found.attachedRuns ?? []).join(' ')
      const key = `${activeRuns} ${attachSessions} ${attached} ${line} ${left.map(({ id, status }) => `${id} ${status}`).join(' ')}`
      rest = describeLeft(context, found, left, runs)
      if (key !== reported) output.note(rest)
      reported = key
    }
    const feed = new DashboardFeed(connection, {
      onFrame: (frame) => {
        if (frame.type === 'run-updated') runs.set(frame.run.id, frame.run)
        else if (frame.type === 'workers') judge(frame.workers)
        else if (frame.type === 'hello') {
          for (const run of frame.runs) runs.set(run.id, run)
          judge(frame.workers)
        }
      },
      onLost: () => output.warn('connection lost, trying again'),
      onEnd: (error) => finish(error),
    })
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => finish(rest), timeoutMs)
    function finish(outcome: WorkerView | Error | string): void {
      clearTimeout(timer)
      feed.close()
      if (outcome instanceof Error) reject(outcome)
      else resolve(outcome)
    }
    signal.addEventListener('abort', () => finish(new Error('stopped')), { once: true })
  })
}

const isExecuting = (run: Run): boolean => run.status !== 'queued' && !hasEnded(run)

/**
 * `2 left: ENG-238 running 12m, ENG-240 finalizing 5m40s; 1 terminal: ENG-231`. An absent worker reports nothing, and a
 * terminal that an earlier process of the host has opened has no name.
 */
function describeLeft(
  { output, present }: CommandContext,
  { activeRuns, attachSessions = 0, attachedRuns = [], connection }: WorkerView,
  runs: readonly Run[],
  known: ReadonlyMap<string, Run>,
): string {
  const { now } = present()
  const named = runs.map(
    (run) => `${run.ticket.identifier} ${run.status} ${formatAgeOf(run.startedAt ?? beginningOf(run), now)}`,
  )
  const list = named.length === 0 || activeRuns === 0 ? '' : `: ${named.join(', ')}`
  const attached = attachedRuns.map((id) => known.get(id)?.ticket.identifier ?? id)
  const open = `${attachSessions} ${attachSessions === 1 ? 'terminal' : 'terminals'}`
  const terminals = attached.length === 0 ? open : `${open}: ${attached.join(', ')}`
  const parts = [
    `${activeRuns} left${list}`,
    ...(attachSessions === 0 ? [] : [terminals]),
    ...(connection === 'offline'
      ? ['the worker is offline, its runs are waited for until their leases end']
      : []),
  ]
  return output.stderr.clean(parts.join('; '))
}
