/** What the ends of the dashboard measurement agree on: where, who, and what one event looks like on the wire. */
import type { DashboardPush } from '../../protocol/dashboard.ts'
import { routes } from '../../protocol/routes.ts'

export const WATCH_PATH = routes.dashboardSocket.path
export const WATCH_TOKEN = 'a-token-that-only-this-measurement-knows'

/** Every event of the busy run is as long as any other. */
export function eventOf(index: number): DashboardPush {
  const text = 'compiling module after module, and saying so in a line as long as most lines of a log are'
  const at = '2026-01-31T12:00:00.000Z'
  return {
    type: 'run-event',
    event: { runId: 'run-1', index: 1_000_000 + index, at, type: 'log', stream: 'stdout', text },
  }
}

/** Its text behind the head of a WebSocket frame, which is four bytes long from 126 bytes on. */
export const eventFrameBytes = (): number => 4 + JSON.stringify(eventOf(0)).length
