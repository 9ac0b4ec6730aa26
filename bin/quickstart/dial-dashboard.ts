/** Connects to the dashboard socket of a host on this machine. */
import { WebSocket } from 'undici'
import type { DashboardFrame } from '../../protocol/dashboard.ts'

export interface DashboardListener {
  onFrame(frame: DashboardFrame): void
  /** Called once, also when the socket never opened. */
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
    // The host checks the frames that it sends.
    listener.onFrame(JSON.parse(String(data)) as DashboardFrame)
  })
  // The close event that follows reports the error.
  socket.addEventListener('error', () => {})
  socket.addEventListener('close', ({ code, reason }) =>
    listener.onClosed(reason === '' ? `the connection was closed (${code})` : reason),
  )
  return { close: () => socket.close() }
}
