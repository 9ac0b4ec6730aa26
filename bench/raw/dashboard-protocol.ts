/** Shared by the processes of the dashboard benchmark: path, token and the event's form on the wire. */
import type { DashboardPush } from '../../protocol/dashboard.ts'
import { routes } from '../../protocol/routes.ts'

export const WATCH_PATH = routes.dashboardSocket.path
export const WATCH_TOKEN = 'a-token-that-only-this-measurement-knows'

/** All events have the same length. */
export function eventOf(index: number): DashboardPush {
  const text = 'compiling module after module, and saying so in a line as long as most lines of a log are'
  const at = '2026-01-31T12:00:00.000Z'
  return {
    type: 'run-event',
    event: { runId: 'run-1', index: 1_000_000 + index, at, type: 'log', stream: 'stdout', text },
  }
}

/** The event as a WebSocket frame; the frame's header is four bytes long from 126 bytes on. */
export const eventFrameBytes = (): number => 4 + JSON.stringify(eventOf(0)).length
