/**
 * `forwardAfterHello` forwards what a client sends once its first message names the host that its tunnel is for.
 *
 * An allowed host may share its address with others, and would answer for them by the name in the hello. Only the first
 * message is looked at. On port 443 there must be one, on port 80 an HTTP request for the host; elsewhere other protocols
 * pass. Bytes that begin like TLS are never taken for one of them.
 */
import type { Socket } from 'node:net'
import { CLIENT_HELLO_BYTES_MAX, readClientHello } from './client-hello.ts'
import { checkHttpHead, type HttpVerdict } from './http-head.ts'
import type { ConnectTarget } from './policy.ts'

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
