/** Watches the workers of a host and their runs over the dashboard socket, until a command has what it waits for. */
import { DashboardFeed } from '../../../client/dashboard-feed.ts'
import { beginningOf } from '../../../client/run-beginning.ts'
import { hasEnded } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import type { FleetResponse, WorkerView } from '../../../protocol/worker.ts'
import { formatAgeOf, parseTimeout } from '../../output/times.ts'
import { unwrapOrExit, usageError } from '../../process/exit.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'

export interface WaitingOptions extends ClientOptions {
  readonly wait?: boolean | undefined
  readonly timeout?: string | undefined
}

/** Undefined without `--timeout`. @param command what a person typed, for the cure */
export function waitingMs(
  { options, present }: CommandContext<WaitingOptions>,
  command: string,
): number | undefined {
  const { wait, timeout } = options
  if (timeout === undefined) return undefined
  if (wait !== true) throw usageError('--timeout is for --wait', `${command} --wait --timeout ${timeout}`)
  return unwrapOrExit(parseTimeout(timeout, '--timeout', present()))
}

/** The workers, and by id the runs that the host has named so far. */
export interface SeenFleet {
  readonly workers: readonly WorkerView[]
  readonly runs: ReadonlyMap<string, Run>
}

/** `left`: a line about what is waited for, which is printed whenever it changes in more than its ages. */
export type FleetJudgement<T> =
  | { readonly is: 'left'; readonly left: string; readonly key: string }
  | { readonly is: 'done'; readonly value: T }

export interface FleetWatch<T> {
  readonly signal: AbortSignal
  readonly timeoutMs: number | undefined
  /** Called for each push of the host and each reading of its workers; an ExitError that it throws ends the watching. */
  readonly judge: (seen: SeenFleet) => FleetJudgement<T>
}

/** A host of an earlier version does not push the workers when a lease ends, so they are read as well. */
const READ_EVERY_MS = 2_000

/** Resolves with what is left when the time was over. */
export function watchFleet<T>(
  { client, connection, output }: Pick<CommandContext, 'client' | 'connection' | 'output'>,
  { signal, timeoutMs, judge }: FleetWatch<T>,
): Promise<FleetJudgement<T>> {
  const runs = new Map<string, Run>()
  let workers: readonly WorkerView[] = []
  let last: FleetJudgement<T> = { is: 'left', left: '', key: '' }
  return new Promise((resolve, reject) => {
    const judgeAgain = () => {
      const before = last.is === 'left' ? last.key : ''
      try {
        last = judge({ workers, runs })
      } catch (error) {
        finish(error)
        return
      }
      if (last.is === 'done') finish()
      else if (last.key !== before) output.note(last.left)
    }
    const feed = new DashboardFeed(connection, {
      onFrame: (frame) => {
        if (frame.type === 'run-updated') runs.set(frame.run.id, frame.run)
        else if (frame.type === 'workers') workers = frame.workers
        else if (frame.type === 'hello') {
          for (const run of frame.runs) runs.set(run.id, run)
          workers = frame.workers
        } else return
        judgeAgain()
      },
      onLost: () => output.warn('connection lost, trying again'),
      onEnd: (error) => finish(error),
    })
    const onRead = (fleet: FleetResponse) => {
      if (isOver) return
      workers = fleet.workers
      judgeAgain()
    }
    // The feed reports what keeps the host from answering.
    const readWorkers = () => void client.listWorkers().then(onRead, () => undefined)
    const reading = setInterval(readWorkers, READ_EVERY_MS)
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => finish(), timeoutMs)
    let isOver = false
    function finish(failure?: unknown): void {
      isOver = true
      clearTimeout(timer)
      clearInterval(reading)
      feed.close()
      if (failure === undefined) resolve(last)
      else reject(failure)
    }
    signal.addEventListener('abort', () => finish(new Error('stopped')), { once: true })
  })
}

export interface RunsLeft {
  /** Runs that execute, and those on their way to a worker. */
  readonly count: number
  /** `2 left: ENG-238 running 12m, ENG-240 finalizing 5m40s`. */
  readonly text: string
  /** Changes with the runs and their states, and not with their ages. */
  readonly key: string
}

/** Finds the runs that these workers have not ended yet. @param now the wall clock */
export function findRunsLeft(runs: SeenFleet['runs'], workers: readonly WorkerView[], now: number): RunsLeft {
  const ids = new Set<string | undefined>(workers.map(({ id }) => id))
  const executing = [...runs.values()].filter(
    (run) => run.status !== 'queued' && !hasEnded(run) && ids.has(run.sandbox.workerId),
  )
  const leases = workers.reduce((sum, { activeRuns }) => sum + activeRuns, 0)
  const absent = workers.filter(({ activeRuns, connection }) => activeRuns > 0 && connection === 'offline')
  const named = executing.map(
    (run) => `${run.ticket.identifier} ${run.status} ${formatAgeOf(run.startedAt ?? beginningOf(run), now)}`,
  )
  const list = named.length === 0 || leases === 0 ? '' : `: ${named.join(', ')}`
  const away = absent.map(
    ({ name }) => `; ${name} is offline, its runs are waited for until their leases end`,
  )
  return {
    count: leases,
    text: `${leases} left${list}${away.join('')}`,
    key: JSON.stringify([
      leases,
      absent.map(({ id }) => id),
      executing.map(({ id, status }) => [id, status]),
    ]),
  }
}
