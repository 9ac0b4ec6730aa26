/** `createHostServer` joins the open listeners to one server that stops them in order. */
import type { Clock } from '../core/ports/clock.ts'
import type { HostServerOptions, OpenListener } from './server.ts'
import { CLOSE } from './sockets/bounded-sender.ts'

export interface HostServer {
  readonly managementPort: number
  readonly fleetPort?: number
  /** Accepts no new connections. */
  stopAccepting(): void
  /**
   * Closes every socket with the reason, waits a short time for pending replies, then closes everything. Afterwards
   * nothing of the server keeps the process alive.
   */
  close(reason: string): Promise<void>
}

/** How long a stop waits for pending replies, and for sockets to read their close frame. */
export const CLOSE_MS_MAX = 2_000
const CLOSE_POLL_MS = 20

export function createHostServer(
  { clock }: HostServerOptions,
  management: OpenListener,
  fleet?: OpenListener,
): HostServer {
  const listeners = fleet === undefined ? [management] : [management, fleet]
  let closing: Promise<void> | undefined

  const stopAccepting = (): void => {
    for (const listener of listeners) listener.listening.stop()
  }
  const busy = (): boolean =>
    listeners.some(
      (listener) =>
        listener.http.pendingCount() > 0 || listener.socketGroups.some((group) => group.count() > 0),
    )

  async function closeAll(reason: string): Promise<void> {
    stopAccepting()
    for (const listener of listeners) {
      listener.http.refuseNew()
      for (const group of listener.socketGroups) {
        group.stop()
        group.closeAll(CLOSE.goingAway, reason)
      }
    }
    const until = clock.monotonic() + CLOSE_MS_MAX
    // Wait at least once, so that close frames are sent before the connections are closed.
    do await pause(clock, CLOSE_POLL_MS)
    while (busy() && clock.monotonic() < until)
    for (const listener of listeners) listener.app.close()
  }

  return {
    managementPort: management.listening.port,
    ...(fleet === undefined ? {} : { fleetPort: fleet.listening.port }),
    stopAccepting,
    close: (reason) => (closing ??= closeAll(reason)),
  }
}

const pause = (clock: Clock, ms: number): Promise<void> =>
  new Promise((resolve) => {
    clock.after(ms, resolve)
  })
