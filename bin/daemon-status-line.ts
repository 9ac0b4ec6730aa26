/** Describes a worker in a line for `systemctl status`. */
import type { DaemonStatus } from '../actors/daemon/daemon-dependencies.ts'

export function formatDaemonStatus(
  { state, online, trouble, executions }: DaemonStatus,
  url: string,
): string {
  const runs = executions.length === 1 ? '1 run' : `${executions.length} runs`
  const connection = online ? `connected to ${url}` : `not connected to ${url}`
  return [state, runs, connection].join(', ') + (online || trouble === undefined ? '' : `: ${trouble}`)
}
