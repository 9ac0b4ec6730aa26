/** `NodeRequest` gives the port's view of a request of node:http. */
import type { IncomingMessage } from 'node:http'
import type { ListenerRequest } from '../listener-port.ts'

export class NodeRequest implements ListenerRequest {
  readonly #message: IncomingMessage
  /** The path, and the query when there is a `?`. */
  readonly #url: readonly [path: string, query?: string]

  constructor(message: IncomingMessage) {
    this.#message = message
    const target = message.url ?? ''
    const mark = target.indexOf('?')
    this.#url = mark < 0 ? [target] : [target.slice(0, mark), target.slice(mark + 1)]
  }

  getCaseSensitiveMethod(): string {
    return this.#message.method ?? ''
  }

  getUrl(): string {
    return this.#url[0]
  }

  getQuery(): string | undefined {
    return this.#url[1]
  }

  getHeader(lowerCaseName: string): string {
    const value = this.#message.headers[lowerCaseName]
    return typeof value === 'string' ? value : (value?.[0] ?? '')
  }

  /** `headers` would join repeated headers or drop them, so this visits `rawHeaders`. */
  forEach(visit: (name: string, value: string) => void): void {
    const { rawHeaders } = this.#message
    for (let at = 0; at + 1 < rawHeaders.length; at += 2)
      visit(rawHeaders[at]?.toLowerCase() ?? '', rawHeaders[at + 1] ?? '')
  }
}
