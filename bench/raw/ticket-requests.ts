/**
 * TicketRequests is a connection to the management listener that requests runs, one after the other.
 */
import { createConnection, type Socket } from 'node:net'

export class TicketRequests {
  readonly #socket: Socket
  readonly #token: string
  #onResponse = (_: number): void => {}
  #text = ''

  constructor(port: number, token: string) {
    this.#token = token
    this.#socket = createConnection({ host: '127.0.0.1', port, noDelay: true })
    this.#socket.setEncoding('latin1').on('data', (text: string) => this.#readResponse(text))
  }

  requestRun(path: string): Promise<number> {
    this.#socket.write(
      `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${this.#token}\r\nContent-Length: 0\r\n\r\n`,
    )
    return new Promise((resolve) => {
      this.#onResponse = resolve
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  #readResponse(text: string): void {
    this.#text += text
    const end = this.#text.indexOf('\r\n\r\n')
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(this.#text)?.[1] ?? 0)
    if (end < 0 || this.#text.length < end + 4 + length) return
    const status = Number(this.#text.slice(9, 12))
    this.#text = ''
    this.#onResponse(status)
  }
}
