/**
 * ResponseSplitter counts the responses in a connection's bytes when all responses are as long as the first.
 */
export class ResponseSplitter {
  readonly #expect: number
  #length = 0
  #head = ''
  #received = 0

  constructor(expect: number) {
    this.#expect = expect
  }

  /** Returns how many responses these bytes complete. */
  countCompleted(bytes: Uint8Array): number {
    this.#received += bytes.byteLength
    if (this.#length === 0) this.#readHead(bytes)
    if (this.#length === 0) return 0
    const completed = Math.floor(this.#received / this.#length)
    this.#received -= completed * this.#length
    return completed
  }

  #readHead(bytes: Uint8Array): void {
    this.#head += Buffer.from(bytes).toString('latin1')
    const end = this.#head.indexOf('\r\n\r\n')
    if (end < 0) return
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(this.#head)?.[1])
    if (status !== this.#expect) throw new Error(`answered ${status}, not ${this.#expect}`)
    const body = /\r\ncontent-length: *(\d+)/i.exec(this.#head.slice(0, end))?.[1]
    if (body === undefined) throw new Error('answered without Content-Length')
    this.#length = end + 4 + Number(body)
  }
}
