/** Connects to the dashboard socket of a host on this machine, once. */
import { dialByNode } from '../../client/node-socket.ts'
import { REQUEST_LINES } from '../../client/request-lines.ts'
import type { DashboardFrame } from '../../protocol/dashboard.ts'

export interface DashboardListener {
  onFrame(frame: DashboardFrame): void
  /** Called once, also when the socket never opened. */
  onClosed(reason: string): void
}

export interface DashboardConnection {
  close(): void
}

const SOCKET_PATH = REQUEST_LINES.dashboardSocket.split(' ')[1] ?? ''

export function dialDashboard(url: string, token: string, listener: DashboardListener): DashboardConnection {
  return dialByNode({ url, token }, SOCKET_PATH, {
    onOpen: () => {},
    // The host checks the frames that it sends.
    onText: (text) => listener.onFrame(JSON.parse(text) as DashboardFrame),
    onEnd: ({ reason }) => listener.onClosed(reason),
  })
}
