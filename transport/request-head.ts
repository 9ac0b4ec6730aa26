/**
 * What the door needs from a request's head, read in one pass.
 *
 * One pass, because a doubled header shows only when each one is looked at; one reused object, because the request
 * is dead after its callback and nearly every answer is made within it. Whoever answers later takes out what it
 * needs first. A header that must not be doubled is counted; its first value is kept.
 */
import type { HttpRequest } from 'uWebSockets.js'

export interface RequestHead {
  method: string
  path: string
  host: string
  hosts: number
  origin: string
  origins: number
  authorization: string
  authorizations: number
  contentType: string
  contentLength: string
  contentLengths: number
  transferEncoding: string
  upgrade: string
  /** Access-Control-Request-Method: what a preflight asks about. */
  preflightMethod: string
}

const head: RequestHead = {
  method: '',
  path: '',
  host: '',
  hosts: 0,
  origin: '',
  origins: 0,
  authorization: '',
  authorizations: 0,
  contentType: '',
  contentLength: '',
  contentLengths: 0,
  transferEncoding: '',
  upgrade: '',
  preflightMethod: '',
}

/** Valid until the next request is read. */
export function readHead(request: HttpRequest): RequestHead {
  // Before getMethod or anything else: asking for the lower-cased method lower-cases it in place for good.
  head.method = request.getCaseSensitiveMethod()
  head.path = request.getUrl()
  head.host = head.origin = head.authorization = head.contentType = ''
  head.contentLength = head.transferEncoding = head.upgrade = head.preflightMethod = ''
  head.hosts = head.origins = head.authorizations = head.contentLengths = 0
  request.forEach(readHeader)
  return head
}

function readHeader(name: string, value: string): void {
  switch (name) {
    case 'host':
      if (head.hosts++ === 0) head.host = value
      return
    case 'origin':
      if (head.origins++ === 0) head.origin = value
      return
    case 'authorization':
      if (head.authorizations++ === 0) head.authorization = value
      return
    case 'content-type':
      head.contentType = value
      return
    case 'content-length':
      if (head.contentLengths++ === 0) head.contentLength = value
      return
    case 'transfer-encoding':
      head.transferEncoding = value.toLowerCase()
      return
    case 'upgrade':
      head.upgrade = value.toLowerCase()
      return
    case 'access-control-request-method':
      head.preflightMethod = value
  }
}

/** Whether a body follows this head. */
export function announcesBody(read: RequestHead): boolean {
  return read.transferEncoding !== '' || (read.contentLength !== '' && read.contentLength !== '0')
}

/** What comes after the `?`, still encoded. The listener says `undefined`, not "", when there is no `?`. */
export function readQueryText(request: HttpRequest): string {
  const query: string | undefined = request.getQuery()
  return query ?? ''
}
