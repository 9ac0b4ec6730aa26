/**
 * Tells the service manager that a worker is ready, and describes the worker in a line for `systemctl status`.
 *
 * A worker that its host does not accept ends a moment after its start, and must not count as ready before that. A host
 * that does not answer is no reason to wait: the worker dials until it does.
 */
import type { Daemon, DaemonStatus } from '../actors/daemon/daemon-dependencies.ts'
import type { Clock } from '../core/ports.ts'
import { WORKER_READY_MS_MAX } from '../protocol/limits.ts'
import type { ServiceNotifier } from './service-notifier.ts'

const POLL_MS = 50

export function announceWorker(
  daemon: Pick<Daemon, 'status'>,
  {
    notifier,
    hostName,
    clock,
  }: { readonly notifier: ServiceNotifier; readonly hostName: string; readonly clock: Clock },
): void {
  const until = clock.monotonic() + WORKER_READY_MS_MAX
  const poll = () => {
    const { state, online, trouble } = daemon.status()
    if (state === 'stopped' || state === 'stopping') return
    if (online || trouble !== undefined || clock.monotonic() >= until)
      notifier.ready(() => formatDaemonStatus(daemon.status(), hostName))
    else clock.after(POLL_MS, poll)
  }
  poll()
}

export function formatDaemonStatus(
  { state, online, trouble, executions }: DaemonStatus,
  hostName: string,
): string {
  const runs = executions.length === 1 ? '1 run' : `${executions.length} runs`
  const connection = online ? `connected to ${hostName}` : `not connected to ${hostName}`
  return [state, runs, connection].join(', ') + (online || trouble === undefined ? '' : `: ${trouble}`)
}
