/** Watches runs over the dashboard socket until all have ended, across lost connections. */
import { createClient } from '../../../client/client.ts'
import type { ClientConnection } from '../../../client/connection.ts'
import { DashboardFeed } from '../../../client/dashboard-feed.ts'
import { isPassing } from '../../../client/errors.ts'
import { hasEnded } from '../../../client/run-events.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'

export interface WatchOptions {
  readonly signal: AbortSignal
  readonly timeoutMs?: number | undefined
  /** Another state, or another reason to wait. @param provider the agent that works on a running run, if it is known */
  readonly onChange?: (run: Run, provider: string | undefined) => void
  /** Called once for each run, also for those that had ended before. */
  readonly onEnd?: (run: Run) => void
  readonly onLost?: () => void
  /** From now on every change is seen; called again after each lost connection. */
  readonly onLive?: () => void
}

export interface Watched {
  /** False when the time was over before. */
  readonly allEnded: boolean
  /** The runs as they were last seen, in the given order. */
  readonly runs: readonly Run[]
}

/** Rejects when no host is reached at first, when the host refuses, and with the signal's reason. */
export function watchRuns(
  connection: ClientConnection,
  runs: readonly Run[],
  { signal, timeoutMs, onChange, onEnd, onLost, onLive }: WatchOptions,
): Promise<Watched> {
  const client = createClient(connection)
  const latest = new Map(runs.map((run) => [run.id, run]))
  const ended = new Set<string>()
  const providers = new Map<string, string>()
  return new Promise((resolve, reject) => {
    const take = (run: Run) => {
      const before = latest.get(run.id)
      if (before === undefined) return
      latest.set(run.id, run)
      if (!hasEnded(run)) {
        if (before.status !== run.status || before.queueReason !== run.queueReason)
          onChange?.(run, providers.get(run.id))
      } else if (!ended.has(run.id)) {
        ended.add(run.id)
        onEnd?.(run)
      }
      if (ended.size === latest.size) finish(true)
    }
    const takeEvent = (event: RunEvent) => {
      if (event.type === 'status' && event.provider !== undefined && latest.has(event.runId))
        providers.set(event.runId, event.provider)
    }
    const takeAll = (known: readonly Run[]) => {
      const ids = new Set(known.map(({ id }) => id))
      for (const run of latest.values()) if (!ids.has(run.id) && !ended.has(run.id)) read(run)
      for (const run of known) take(run)
    }
    // A hello holds only the newest of the runs that have ended, and others may have ended since the last connection.
    const read = ({ id }: Run) =>
      client.readRun({ id }, { signal }).then(
        (run) => ended.has(id) || take(run),
        (failure) => isPassing(failure) || finish({ failure }),
      )
    const feed = new DashboardFeed(connection, {
      onFrame: (frame) => {
        if (frame.type === 'hello') takeAll(frame.runs)
        else if (frame.type === 'run-updated') take(frame.run)
        // A change of state is sent as an event first.
        else if (frame.type === 'run-event') takeEvent(frame.event)
      },
      ...(onLost === undefined ? {} : { onLost }),
      ...(onLive === undefined ? {} : { onLive }),
      onEnd: (failure) => finish({ failure }),
    })
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => finish(false), timeoutMs)
    const onAbort = () => finish({ failure: signal.reason })
    function finish(outcome: boolean | { readonly failure: unknown }): void {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      feed.close()
      if (typeof outcome === 'object') reject(outcome.failure)
      else resolve({ allEnded: outcome, runs: [...latest.values()] })
    }
    signal.addEventListener('abort', onAbort)
    if (signal.aborted) onAbort()
    for (const run of runs) take(run)
  })
}
