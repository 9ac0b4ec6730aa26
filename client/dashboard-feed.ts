/**
 * The dashboard socket of a host: everything at once in a hello, then every change. A `ChangesFeed` has a
 * hello without runs and tickets, which its client reads itself, and is sent what changes in them.
 */
import type { ChangesFrame, DashboardFrame } from '../protocol/dashboard.ts'
import type { ClientConnection } from './connection.ts'
import { type FeedListener, HostFeed } from './host-feed.ts'
import { REQUEST_LINES } from './request-lines.ts'

const SOCKET_PATH = REQUEST_LINES.dashboardSocket.split(' ')[1] ?? ''

export class DashboardFeed<F extends ChangesFrame | DashboardFrame = DashboardFrame> {
  readonly #feed: HostFeed<F>
  readonly #subscriptions = new Set<string>()

  constructor(connection: ClientConnection, listener: FeedListener<F>, query: '' | '?changes=1' = '') {
    this.#feed = new HostFeed(connection, `${SOCKET_PATH}${query}`, listener, () => {
      for (const runId of this.#subscriptions) this.#send('subscribe', runId)
    })
  }

  /** From the first subscription on only the events of subscribed runs are sent. */
  subscribe(runId: string): void {
    this.#subscriptions.add(runId)
    this.#send('subscribe', runId)
  }

  unsubscribe(runId: string): void {
    if (this.#subscriptions.delete(runId)) this.#send('unsubscribe', runId)
  }

  /** Dials at once: instead of after a pause, or because the open connection may be dead after a sleep. */
  redial(): void {
    this.#feed.redial()
  }

  close(): void {
    this.#feed.close()
  }

  #send(type: 'subscribe' | 'unsubscribe', runId: string): void {
    this.#feed.send(type === 'subscribe' ? { type, runId, confirm: true } : { type, runId })
  }
}

export class ChangesFeed extends DashboardFeed<ChangesFrame> {
  constructor(connection: ClientConnection, listener: FeedListener<ChangesFrame>) {
    super(connection, listener, '?changes=1')
  }
}
