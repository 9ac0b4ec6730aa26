/**
 * The dashboard's socket, as a client of this machine sees it: frames in, and the one moment when it is over.
 */
import { WebSocket } from 'undici'
import type { DashboardFrame } from '../../protocol/dashboard.ts'

export interface DashboardListener {
  onFrame(frame: DashboardFrame): void
  /** Once; also when it never opened. */
  onClosed(reason: string): void
}

export interface DashboardConnection {
  close(): void
}

export function dialDashboard(url: string, token: string, listener: DashboardListener): DashboardConnection {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/ws`, {
    headers: { authorization: `Bearer ${token}` },
  })
  socket.addEventListener('message', ({ data }) => {
    // Our own host's words; it checks what it sends.
    listener.onFrame(JSON.parse(String(data)) as DashboardFrame)
  })
  // What went wrong is told by the close that follows.
  socket.addEventListener('error', () => {})
  socket.addEventListener('close', ({ code, reason }) =>
    listener.onClosed(reason === '' ? `the line was closed (${code})` : reason),
  )
  return { close: () => socket.close() }
}
