/**
 * `forwardAfterHello` forwards what a client sends once its first message names the host that its tunnel is for.
 *
 * An allowed host may share its address with others, and would answer for them by the name in the hello. Only the
 * first message is looked at. On port 443 there must be one, on port 80 an HTTP request for the host; elsewhere other
 * protocols pass. Bytes that begin like TLS are never taken for one of them.
 */
import type { Socket } from 'node:net'
import type { ConnectTarget } from './policy.ts'

/** Far above what clients send, with keys that resist quantum computers. */
export const CLIENT_HELLO_BYTES_MAX = 16 * 1024
/** The records around the parts of a message. */
const HELD_BYTES_MAX = 2 * CLIENT_HELLO_BYTES_MAX
const TLS_PORT = 443
const HTTP_PORT = 80

/** `onRefused` receives the reason; both sockets are closed by then. */
export function forwardAfterHello(
  target: Pick<ConnectTarget, 'host' | 'port' | 'isLiteral'>,
  onRefused: (why: string) => void,
): (client: Socket, upstream: Socket) => void {
  return (client, upstream) => {
    let held: Buffer = Buffer.alloc(0)
    const settle = (isOver: boolean): void => {
      const verdict = judge(held, target, isOver)
      if (verdict === 'wait') return
      client.off('data', onData).off('end', onEnd)
      if ('why' in verdict) {
        onRefused(verdict.why)
        client.destroy()
        upstream.destroy()
        return
      }
      if (verdict.pass.length > 0) upstream.write(verdict.pass)
      client.pipe(upstream)
      if (isOver) upstream.end()
    }
    const onData = (bytes: Buffer) => {
      held = Buffer.concat([held, bytes])
      settle(false)
    }
    const onEnd = () => settle(true)
    client.on('data', onData).on('end', onEnd).resume()
  }
}

function judge(
  held: Buffer,
  { host, port, isLiteral }: Pick<ConnectTarget, 'host' | 'port' | 'isLiteral'>,
  isOver: boolean,
): HttpVerdict {
  const pass = { pass: held }
  if (isOver && held.length === 0) return pass
  const hello = readClientHello(held)
  if (hello.is === 'no TLS') {
    if (port === TLS_PORT || beginsLikeTls(held)) return { why: 'it does not begin with a TLS hello' }
    if (port !== HTTP_PORT) return pass
    const verdict = checkHttpHead(held, host)
    return verdict === 'wait' && isOver ? { why: 'its HTTP head breaks off' } : verdict
  }
  if (hello.is === 'unfinished') {
    if (isOver) return { why: 'its TLS hello breaks off' }
    return held.length > HELD_BYTES_MAX ? { why: 'its TLS hello is too long' } : 'wait'
  }
  if (hello.name === host || (isLiteral && hello.name === undefined)) return pass
  return hello.name === undefined
    ? { why: 'its TLS hello names no host' }
    : { why: `its TLS hello names another host, ${printable(hello.name)}` }
}

const beginsLikeTls = (held: Buffer): boolean => held[0] === 22 && held[1] === 3

const NAME_CHARS_MAX = 100
const printable = (name: string): string => name.slice(0, NAME_CHARS_MAX).replace(/[^!-~]/g, '?')

// ---- the TLS hello -------------------------------------------------------------------------------------------------

type ClientHello =
  /** More bytes are needed. */
  { readonly is: 'unfinished' } | { readonly is: 'no TLS' } | { readonly is: 'hello'; readonly name?: string }

const HANDSHAKE = 22
const CLIENT_HELLO = 1
const RECORD_HEAD_BYTES = 5
const RECORD_BYTES_MAX = 1 << 14
const MESSAGE_HEAD_BYTES = 4
const SERVER_NAME = 0
const HOST_NAME = 0

const UNFINISHED = { is: 'unfinished' } as const
const NO_TLS = { is: 'no TLS' } as const

/**
 * Reads the name in the first message of a TLS client, from the bytes so far.
 *
 * Only the form that every server reads alike counts: whole handshake records, one name. With an encrypted inner hello
 * the name is the outer one, and who sends a decoy of that extension has the true name outside.
 */
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

// ---- the HTTP head -------------------------------------------------------------------------------------------------

type HttpVerdict = 'wait' | { readonly pass: Buffer } | { readonly why: string }

const HEAD_BYTES_MAX = 32 * 1024
const HEAD_END = '\r\n\r\n'
/** An address in this place would count more than the `Host`. */
const REQUEST_LINE = /^[A-Z]{1,20} [/*][!-~]* HTTP\/1\.[01]$/
/** No folded lines and no spaces before the colon, which servers read differently. */
const FIELD = /^([\w!#$%&'*+.^`|~-]+):[\t ]*([\t -~\x80-\xff]*?)[\t ]*$/

/**
 * Lets one plain HTTP request through a tunnel if its `Host` is the host that the tunnel is for. The request leaves
 * with `Connection: close`, so the server reads no second one, whose `Host` nobody has seen.
 */
function checkHttpHead(held: Buffer, host: string): HttpVerdict {
  const end = held.indexOf(HEAD_END)
  if (end < 0) return held.length > HEAD_BYTES_MAX ? { why: 'its HTTP head is too long' } : 'wait'
  const [line = '', ...rest] = held.toString('latin1', 0, end).split('\r\n')
  const fields = rest.map((each) => FIELD.exec(each))
  if (!REQUEST_LINE.test(line) || fields.includes(null))
    return { why: 'it does not begin with an HTTP request' }
  const valuesOf = (name: string) =>
    fields.flatMap((each) => (each?.[1]?.toLowerCase() === name ? [each[2]] : []))
  const hosts = valuesOf('host').map((value = '') => value.toLowerCase().replace(/:80$/, ''))
  if (hosts.length !== 1 || hosts[0] !== host) return { why: `the Host of its HTTP request is not ${host}` }
  const kept = rest.filter((_, at) => !/^(?:connection|upgrade|keep-alive)$/i.test(fields[at]?.[1] ?? ''))
  const head = [line, ...kept, 'Connection: close'].join('\r\n')
  return { pass: Buffer.concat([Buffer.from(head, 'latin1'), held.subarray(end)]) }
}
