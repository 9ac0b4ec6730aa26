/**
 * Stops a worker by signals: the first drains it, a second one ends it at once. A worker that ends with its standard
 * input hands its runs back when that is closed; the worker of a supervisor finishes its runs instead.
 */
import type { Daemon } from '../actors/daemon/daemon-dependencies.ts'
import type { Log } from '../core/ports.ts'
import type { OpenWorkerStore } from '../store/worker-store.ts'
import { realClock } from './clock.ts'
import { EXIT } from './exit.ts'
import { watchRescue } from './rescue.ts'
import type { StopSignals } from './signals.ts'

/** The time limit of an immediate stop, for the end of sandboxes and a slow disk. */
const STOP_NOW_MS_MAX = 10_000

export interface StoppingWorker {
  readonly options: { readonly endWithStdin?: true; readonly drainWithStdin?: true }
  readonly signals: StopSignals
  readonly log: Log
  readonly store: OpenWorkerStore
}

export function stopWorkerOnSignals(daemon: Daemon, { options, signals, log, store }: StoppingWorker): void {
  const exitLate = () => realClock.after(watchRescue(store.state()).msMax, () => process.exit(EXIT.broken))
  const inTime = () => realClock.after(STOP_NOW_MS_MAX, exitLate)
  const stopNow = () => {
    inTime()
    daemon.stopNow()
  }
  signals.onStop(() => daemon.drain(), stopNow)
  if (options.endWithStdin === true)
    onStdinClosed(() => {
      log.info({}, 'the host of this worker stops or has ended; its runs are handed back')
      inTime()
      daemon.handBack()
    })
  else if (options.drainWithStdin === true)
    onStdinClosed(() => {
      log.info({}, 'the supervisor of this worker has ended; the worker finishes its runs and ends')
      daemon.drain()
    })
}

function onStdinClosed(end: () => void): void {
  process.stdin.on('error', () => {})
  process.stdin.once('close', end)
  process.stdin.resume()
}
