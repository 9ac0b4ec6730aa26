/**
 * Reads the needed headers of a request in one pass.
 *
 * The pass visits every header, because duplicates are visible only that way: headers that must not be repeated are
 * counted, and their first value is kept. The returned object is reused for the next request, because nearly every
 * request is answered within its callback. Code that answers later copies what it needs.
 */

import { WORKER_ID_HEADER } from '../protocol/worker.ts'
import type { ListenerRequest } from './listener-port.ts'

export interface RequestHead {
  method: string
  path: string
  host: string
  hosts: number
  origin: string
  origins: number
  authorization: string
  authorizations: number
  /** The worker whose credential stands in `authorization`, on the worker channel. */
  workerId: string
  workerIds: number
  contentType: string
  contentLength: string
  contentLengths: number
  transferEncoding: string
  transferEncodings: number
  upgrade: string
  /** Access-Control-Request-Method: the method that a preflight asks about. */
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
  workerId: '',
  workerIds: 0,
  contentType: '',
  contentLength: '',
  contentLengths: 0,
  transferEncoding: '',
  transferEncodings: 0,
  upgrade: '',
  preflightMethod: '',
}

/** Valid until the next request is read. */
export function readHead(request: ListenerRequest): RequestHead {
  // Read this first: getMethod would convert the method to lower case in place.
  head.method = request.getCaseSensitiveMethod()
  head.path = request.getUrl()
  head.host = head.origin = head.authorization = head.workerId = head.contentType = ''
  head.contentLength = head.transferEncoding = head.upgrade = head.preflightMethod = ''
  head.hosts = head.origins = head.authorizations = head.workerIds = 0
  head.contentLengths = head.transferEncodings = 0
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
    case WORKER_ID_HEADER:
      if (head.workerIds++ === 0) head.workerId = value
      return
    case 'content-type':
      head.contentType = value
      return
    case 'content-length':
      if (head.contentLengths++ === 0) head.contentLength = value
      return
    case 'transfer-encoding':
      if (head.transferEncodings++ === 0) head.transferEncoding = value.toLowerCase()
      return
    case 'upgrade':
      head.upgrade = value.toLowerCase()
      return
    case 'access-control-request-method':
      head.preflightMethod = value
  }
}

/** Whether a body follows. */
export function announcesBody(read: RequestHead): boolean {
  return read.transferEncodings > 0 || (read.contentLength !== '' && read.contentLength !== '0')
}

/** The text after the `?`, still encoded. Without a `?` the library returns undefined instead of an empty text. */
export function readQueryText(request: ListenerRequest): string {
  const query: string | undefined = request.getQuery()
  return query ?? ''
}
