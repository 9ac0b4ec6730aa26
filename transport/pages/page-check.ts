/**
 * Admits the requests of a page's own documents, and refuses everything that another page has caused.
 *
 * Any web page in the person's browser can reach this port. The Host must name loopback, which stops DNS rebinding; an
 * Origin must be the one that the request goes to; and a browser that says where the request comes from must name the
 * same origin, or the person.
 */
import { isLoopbackHost, readBearer } from '../authentication.ts'
import type { ListenerRequest } from '../listener-port.ts'
import { type Reply, refusal } from '../reply.ts'
import { type RequestHead, readHead } from '../request-head.ts'

export interface BrowserRequest {
  readonly head: RequestHead
  readonly cookies: string
  readonly fetchSite: string
  readonly fetchDest: string
}

const READ_HEADERS = ['cookie', 'sec-fetch-site', 'sec-fetch-dest']

export function readBrowserRequest(request: ListenerRequest): BrowserRequest {
  const found: Record<string, string> = {}
  request.forEach((name, value) => {
    if (!READ_HEADERS.includes(name)) return
    found[name] = found[name] === undefined ? value : `${found[name]}; ${value}`
  })
  return {
    head: readHead(request),
    cookies: found.cookie ?? '',
    fetchSite: found['sec-fetch-site'] ?? '',
    fetchDest: found['sec-fetch-dest'] ?? '',
  }
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

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE']

export function refuseMethod({ method }: RequestHead): Reply | undefined {
  if (METHODS.includes(method)) return undefined
  return refusal(405, `use ${METHODS.join(', ')}`, [['allow', METHODS.join(', ')]])
}

/** The secret of a program; a browser says more about where its requests come from than programs do. */
export function readProgramSecret({ head, fetchSite }: BrowserRequest): string | undefined {
  const isProgram = head.origins === 0 && fetchSite === '' && head.authorizations === 1
  return isProgram && head.method === 'POST' ? readBearer(head.authorization) : undefined
}

const FORWARDED = /^\/(api|ws)(\/|$)/
const ANY_ORIGIN = 'http://127.0.0.1'

/** Whether a path belongs to the host's interface; dots that would lead out of it count. */
export function isInterface(path: string): boolean {
  return (
    FORWARDED.test(path) &&
    URL.canParse(path, ANY_ORIGIN) &&
    FORWARDED.test(new URL(path, ANY_ORIGIN).pathname)
  )
}

const ACTIVE_DEST = /script|style|worker|worklet|xslt|object|embed|manifest/
const ACTIVE_REFUSED = refusal(403, 'what the host answers is data, and no part of a page')

/** Artifacts come from agents. Scripts of this origin are allowed to run, so none may come from there. */
export const refuseActive = ({ fetchDest }: BrowserRequest): Reply | undefined =>
  ACTIVE_DEST.test(fetchDest) ? ACTIVE_REFUSED : undefined
