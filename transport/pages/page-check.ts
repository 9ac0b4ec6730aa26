/**
 * Admits the requests of a page's own documents, and refuses everything that another page has caused.
 *
 * Any web page in the person's browser can reach this port. The Host must name loopback, which stops DNS rebinding; an
 * Origin must be the one that the request goes to; and a browser that says where the request comes from must name the
 * same origin, or the person.
 */
import { isLoopbackHost } from '../authentication.ts'
import type { ListenerRequest } from '../listener-port.ts'
import { type Reply, refusal } from '../reply.ts'
import { type RequestHead, readHead } from '../request-head.ts'

export interface BrowserRequest {
  readonly head: RequestHead
  readonly cookies: string
  readonly fetchSite: string
}

/** Valid until the next request is read. */
export function readBrowserRequest(request: ListenerRequest): BrowserRequest {
  const found: Record<string, string> = {}
  request.forEach((name, value) => {
    if (name !== 'cookie' && name !== 'sec-fetch-site') return
    found[name] = found[name] === undefined ? value : `${found[name]}; ${value}`
  })
  return { head: readHead(request), cookies: found.cookie ?? '', fetchSite: found['sec-fetch-site'] ?? '' }
}

const HOST_REFUSED = refusal(
  403,
  'the Host header must name a loopback address, such as 127.0.0.1 or localhost',
)
const ORIGIN_REFUSED = refusal(
  403,
  'only the pages of this address may ask here; open the link that the command prints',
)

/** The refusal of a request that no page of this origin has sent. */
export function refuseForeign({ head, fetchSite }: BrowserRequest): Reply | undefined {
  if (head.hosts !== 1 || !isLoopbackHost(head.host)) return HOST_REFUSED
  const isOwnOrigin =
    head.origins === 0 || (head.origins === 1 && head.origin === `http://${head.host}`.toLowerCase())
  const isOwnSite = fetchSite === '' || fetchSite === 'same-origin' || fetchSite === 'none'
  return isOwnOrigin && isOwnSite ? undefined : ORIGIN_REFUSED
}
