/**
 * Reads the first line and the needed headers of a request in one pass.
 *
 * The pass visits every header, because duplicates are visible only that way: headers that must not be repeated are
 * counted, and their first value is kept.
 */

import { SOURCE_HEADER } from '../protocol/audit.ts'
import { WORKER_ID_HEADER } from '../protocol/worker.ts'
import type { ListenerRequest } from './listener-port.ts'

export class RequestHead {
  method = ''
  path = ''
  /** The text after the `?`, still encoded. */
  query = ''
  host = ''
  hosts = 0
  origin = ''
  origins = 0
  authorization = ''
  authorizations = 0
  /** The worker whose credential stands in `authorization`, on the worker channel. */
  workerId = ''
  workerIds = 0
  /** the source that the program names as its own. */
  source = ''
  contentType = ''
  contentLength = ''
  contentLengths = 0
  transferEncoding = ''
  transferEncodings = 0
  upgrade = ''
  acceptEncoding = ''
  ifNoneMatch = ''
  /** Access-Control-Request-Method: the method that a preflight asks about. */
  preflightMethod = ''
}

/** The head that is being read. */
let head = new RequestHead()

export function readHead(request: ListenerRequest): RequestHead {
  head = new RequestHead()
  // Read this first: getMethod would convert the method to lower case in place.
  head.method = request.getCaseSensitiveMethod()
  head.path = request.getUrl()
  head.query = readQueryText(request)
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
    case SOURCE_HEADER:
      head.source = value
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
    case 'accept-encoding':
      head.acceptEncoding = joined(head.acceptEncoding, value)
      return
    case 'if-none-match':
      head.ifNoneMatch = joined(head.ifNoneMatch, value)
      return
    case 'access-control-request-method':
      head.preflightMethod = value
  }
}

/** The value of a list that may be spread over several headers. */
const joined = (before: string, value: string): string => (before === '' ? value : `${before}, ${value}`)

/** Whether a body follows. */
export function announcesBody(read: RequestHead): boolean {
  return read.transferEncodings > 0 || (read.contentLength !== '' && read.contentLength !== '0')
}

/** The text after the `?`, still encoded. Without a `?` the library returns undefined instead of an empty text. */
export function readQueryText(request: ListenerRequest): string {
  const query: string | undefined = request.getQuery()
  return query ?? ''
}
