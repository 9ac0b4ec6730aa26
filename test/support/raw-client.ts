/**
 * An HTTP client that sends exactly the given bytes, for requests that no regular client would make.
 *
 * The client has one connection and one request at a time, and reconnects when the server has closed the connection.
 */
import { connect, type Socket } from 'node:net'

export interface RawReply {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
  /** The connection ended with, or instead of, this reply. */
  readonly closed: boolean
}

export interface RawClient {
  /** Returns status 0 when the connection ends without a reply. */
  ask(request: string | Buffer): Promise<RawReply>
  close(): void
}

const NO_REPLY: RawReply = { status: 0, headers: new Map(), body: '', closed: true }

export function createRawClient(port: number, host = '127.0.0.1'): RawClient {
  let socket: Socket | undefined
  let got = Buffer.alloc(0)
  let settle: ((reply: RawReply) => void) | undefined
  let bodiless = false

  const done = (reply: RawReply, used: number): void => {
    got = got.subarray(used)
    const resolve = settle
    settle = undefined
    if (reply.status === 101 || reply.headers.get('connection')?.toLowerCase() === 'close') hangUp()
    resolve?.(reply)
  }
  const hangUp = (): void => {
    socket?.destroy()
    socket = undefined
  }
  const parse = (ended: boolean): void => {
    const read = readReply(got, ended, bodiless)
    if (read !== undefined) done(read.reply, read.used)
    else if (ended) done(NO_REPLY, got.length)
  }
  const open = (): Socket => {
    const fresh = connect({ port, host, noDelay: true })
    got = Buffer.alloc(0)
    const ended = (): void => {
      if (socket !== fresh) return
      socket = undefined
      parse(true)
    }
    fresh.on('data', (bytes) => {
      got = got.length === 0 ? bytes : Buffer.concat([got, bytes])
      parse(false)
    })
    fresh.on('error', ended)
    fresh.on('close', ended)
    fresh.on('end', () => fresh.destroy())
    return fresh
  }
  return {
    ask: (text) =>
      new Promise((resolve) => {
        const request = typeof text === 'string' ? Buffer.from(text, 'latin1') : text
        settle = resolve
        bodiless = request.subarray(0, 5).toString() === 'HEAD '
        socket ??= open()
        socket.write(request)
      }),
    close: hangUp,
  }
}

const NO_BODY = { text: '', used: 0 }

function readReply(
  bytes: Buffer,
  ended: boolean,
  bodiless: boolean,
): { reply: RawReply; used: number } | undefined {
  const border = bytes.indexOf('\r\n\r\n')
  if (border < 0) return undefined
  const lines = bytes.subarray(0, border).toString('latin1').split('\r\n')
  const status = Number(lines[0]?.split(' ')[1])
  const headers = new Map(lines.slice(1).map(headerOf))
  const body = bodiless ? NO_BODY : bodyOf(bytes.subarray(border + 4), headers, status, ended)
  if (body === undefined) return undefined
  return { reply: { status, headers, body: body.text, closed: ended }, used: border + 4 + body.used }
}

function headerOf(line: string): [string, string] {
  const at = line.indexOf(':')
  return [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()]
}

function bodyOf(
  rest: Buffer,
  headers: ReadonlyMap<string, string>,
  status: number,
  ended: boolean,
): { text: string; used: number } | undefined {
  const length = headers.get('content-length')
  if ([101, 204, 304].includes(status)) return NO_BODY
  if (headers.get('transfer-encoding') === 'chunked') return chunksOf(rest)
  if (length === undefined) return ended ? { text: rest.toString(), used: rest.length } : undefined
  const size = Number(length)
  return rest.length < size ? undefined : { text: rest.subarray(0, size).toString(), used: size }
}

function chunksOf(rest: Buffer): { text: string; used: number } | undefined {
  let text = ''
  let at = 0
  for (;;) {
    const line = rest.indexOf('\r\n', at)
    if (line < 0) return undefined
    const size = Number.parseInt(rest.subarray(at, line).toString(), 16)
    if (!Number.isFinite(size)) throw new Error(`invalid chunk size: ${rest.subarray(at, line).toString()}`)
    if (rest.length < line + 2 + size + 2) return undefined
    text += rest.subarray(line + 2, line + 2 + size).toString()
    at = line + 2 + size + 2
    if (size === 0) return { text, used: at }
  }
}

/** Returns the text of a request; adds no header except a Content-Length for a body. */
export function requestText(method: string, target: string, headers: readonly string[], body = ''): string {
  const length = body === '' ? [] : [`Content-Length: ${Buffer.byteLength(body, 'latin1')}`]
  return [`${method} ${target} HTTP/1.1`, ...headers, ...length, '', body].join('\r\n')
}
