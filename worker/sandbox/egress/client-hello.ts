/**
 * `readClientHello` reads the name in the first message of a TLS client, from the bytes so far.
 *
 * Only the form that every server reads alike counts: whole handshake records, one name. With an encrypted inner hello the
 * name is the outer one, and who sends a decoy of that extension has the true name outside.
 */

export type ClientHello =
  /** More bytes are needed. */
  { readonly is: 'unfinished' } | { readonly is: 'no TLS' } | { readonly is: 'hello'; readonly name?: string }

const HANDSHAKE = 22
const CLIENT_HELLO = 1
const RECORD_HEAD_BYTES = 5
const RECORD_BYTES_MAX = 1 << 14
const MESSAGE_HEAD_BYTES = 4
const SERVER_NAME = 0
const HOST_NAME = 0
/** Far above what clients send, with keys that resist quantum computers. */
export const CLIENT_HELLO_BYTES_MAX = 16 * 1024

const UNFINISHED = { is: 'unfinished' } as const
const NO_TLS = { is: 'no TLS' } as const

export function readClientHello(bytes: Buffer): ClientHello {
  const message = joinRecords(bytes)
  if (message === undefined) return NO_TLS
  if (message.length > 0 && message[0] !== CLIENT_HELLO) return NO_TLS
  if (message.length < MESSAGE_HEAD_BYTES) return UNFINISHED
  const end = MESSAGE_HEAD_BYTES + message.readUIntBE(1, 3)
  if (end > CLIENT_HELLO_BYTES_MAX) return NO_TLS
  if (message.length < end) return UNFINISHED
  return readName(new Reader(message.subarray(MESSAGE_HEAD_BYTES, end)))
}

/** Returns the bytes of the handshake so far; undefined when these are no records of one. */
function joinRecords(bytes: Buffer): Buffer | undefined {
  const pieces: Buffer[] = []
  for (let at = 0; at < bytes.length; ) {
    if (bytes[at] !== HANDSHAKE || (at + 1 < bytes.length && bytes[at + 1] !== 3)) return undefined
    if (bytes.length - at < RECORD_HEAD_BYTES) break
    const length = bytes.readUInt16BE(at + 3)
    if (length === 0 || length > RECORD_BYTES_MAX) return undefined
    pieces.push(bytes.subarray(at + RECORD_HEAD_BYTES, at + RECORD_HEAD_BYTES + length))
    at += RECORD_HEAD_BYTES + length
  }
  return Buffer.concat(pieces)
}

/** Lists are read to their ends: whatever does not fit makes the message none. */
function readName(hello: Reader): ClientHello {
  try {
    hello.skip(2 + 32)
    hello.list(1)
    hello.list(2)
    hello.list(1)
    if (hello.isAtEnd) return { is: 'hello' }
    const extensions = hello.list(2)
    const names: string[] = []
    while (!extensions.isAtEnd) {
      const type = extensions.number(2)
      const content = extensions.list(2)
      if (type === SERVER_NAME) names.push(...readNames(content))
    }
    if (!hello.isAtEnd || names.length > 1) return NO_TLS
    const [name] = names
    return name === undefined ? { is: 'hello' } : { is: 'hello', name: name.toLowerCase() }
  } catch {
    return NO_TLS
  }
}

function readNames(content: Reader): string[] {
  const names: string[] = []
  const entries = content.list(2)
  while (!entries.isAtEnd) {
    if (entries.number(1) !== HOST_NAME) throw new RangeError('an unknown kind of name')
    names.push(entries.list(2).rest())
  }
  return names
}

class Reader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  number(size: 1 | 2): number {
    const value = this.#bytes.readUIntBE(this.#at, size)
    this.#at += size
    return value
  }

  skip(count: number): Buffer {
    const end = this.#at + count
    if (end > this.#bytes.length) throw new RangeError('the message is too short')
    const skipped = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return skipped
  }

  list(size: 1 | 2): Reader {
    return new Reader(this.skip(this.number(size)))
  }

  rest(): string {
    return this.#bytes.toString('latin1', this.#at)
  }
}
