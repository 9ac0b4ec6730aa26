/** The proxy's HTTP replies: the head of a successful CONNECT, or a refusal with one sentence for a person. */
import type { RefusalKind } from '../../../core/result.ts'
import { printableTarget } from './connection-log.ts'

export type ProxyStatus =
  | '400 Bad Request'
  | '403 Forbidden'
  | '405 Method Not Allowed'
  | '408 Request Timeout'
  | '431 Request Header Fields Too Large'
  | '502 Bad Gateway'
  | '503 Service Unavailable'

export const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'

/** Malformed target, forbidden target, or a target that could not be reached. */
export function statusForRefusal(kind: RefusalKind): ProxyStatus {
  if (kind === 'invalid') return '400 Bad Request'
  return kind === 'forbidden' ? '403 Forbidden' : '502 Bad Gateway'
}

export function buildRefusal(status: ProxyStatus, target: string, why: string): string {
  const body = `switchyard: cannot connect to ${printableTarget(target)}: ${why}\n`
  const head = [
    `HTTP/1.1 ${status}`,
    'content-type: text/plain',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}
