/** The inspection socket of a host: its actors at once, then what happens to them. */
import type { InspectFrame, InspectRequest } from '../protocol/inspection.ts'
import type { ClientConnection } from './connection.ts'
import { type FeedListener, HostFeed } from './host-feed.ts'
import { REQUEST_LINES } from './request-lines.ts'

const SOCKET_PATH = REQUEST_LINES.inspectSocket.split(' ')[1] ?? ''

export class InspectFeed {
  readonly #feed: HostFeed<InspectFrame>
  #request: InspectRequest | undefined

  constructor(connection: ClientConnection, listener: FeedListener<InspectFrame>) {
    this.#feed = new HostFeed(connection, SOCKET_PATH, listener, () => {
      if (this.#request !== undefined) this.#feed.send(this.#request)
    })
  }

  /** Whom the viewer follows; a new connection hears it too. */
  follow(request: Omit<InspectRequest, 'type'>): void {
    this.#request = { type: 'inspect-follow', ...request }
    this.#feed.send(this.#request)
  }

  redial(): void {
    this.#feed.redial()
  }

  close(): void {
    this.#feed.close()
  }
}
