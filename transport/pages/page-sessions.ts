/**
 * Decides who may use a page: codes are good once and for a short time, and are exchanged for cookies.
 *
 * A code travels in the fragment of a link, which is in no log and no Referer. The cookie's name holds the port, because
 * cookies of one host are shared by all its ports. Only hashes are kept, and all end with the process.
 */
import { createHash, randomBytes } from 'node:crypto'
import type { Clock } from '../../core/ports/clock.ts'
import { parseJson } from '../../protocol/parse.ts'
import type { ListenerRequest } from '../listener-port.ts'
import { type Reply, refusal } from '../reply.ts'
import { isLoopbackHost, readBearer } from '../request-checks.ts'
import { type RequestHead, readHead } from '../request-head.ts'

/** How long the code of a page's link is good, and how many of them at once. */
export const PAGE_CODE_SECONDS = 60
const PAGE_CODES_MAX = 16
/** Browsers that are signed in to one page; the one that was used longest ago is forgotten for another. */
export const PAGE_SESSIONS_MAX = 64

/** Commands of the same user ask here for a new code. */
export const CODE_PATH = '/session/code'

const CODE_BYTES = 16
const COOKIE_BYTES = 32
const COOKIE_CHARS_MAX = 128

export class PageSessions {
  readonly #clock: Clock
  /** The hash of each code, and when it ends. */
  readonly #codes = new Map<string, number>()
  /** The hash of each cookie's value; the one that was used longest ago is first. */
  readonly #sessions = new Set<string>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  createCode(): string {
    const code = randomBytes(CODE_BYTES).toString('base64url')
    forgetFirst(this.#codes, PAGE_CODES_MAX)
    this.#codes.set(hashOf(code), this.#clock.monotonic() + PAGE_CODE_SECONDS * 1000)
    return code
  }

  /** Uses a code up. Returns whether it was good: known, and not too old. */
  takeCode(code: string): boolean {
    const key = hashOf(code)
    const endsAt = this.#codes.get(key)
    this.#codes.delete(key)
    return endsAt !== undefined && endsAt > this.#clock.monotonic()
  }

  /** Returns the value of a cookie; undefined for a code that is not good. */
  exchange(code: string): string | undefined {
    if (!this.takeCode(code)) return undefined
    const value = randomBytes(COOKIE_BYTES).toString('base64url')
    forgetFirst(this.#sessions, PAGE_SESSIONS_MAX)
    this.#sessions.add(hashOf(value))
    return value
  }

  /**
   * A session that is used is forgotten after those that are not.
   * @param cookies the header `Cookie`; a name may stand there more than once
   */
  isSignedIn(cookies: string, cookieName: string): boolean {
    return cookies
      .split(';')
      .map((pair) => pair.trim())
      .filter((pair) => pair.startsWith(`${cookieName}=`) && pair.length <= COOKIE_CHARS_MAX)
      .some((pair) => this.#useSession(hashOf(pair.slice(cookieName.length + 1))))
  }

  #useSession(key: string): boolean {
    const isKnown = this.#sessions.delete(key)
    if (isKnown) this.#sessions.add(key)
    return isKnown
  }
}

export const linkTo = (port: number, code: string): string => `http://127.0.0.1:${port}/#code=${code}`

export const cookieNameOf = (port: number): string => `switchyard-${port}`

/** The header `Set-Cookie`. Without an end of its own the cookie ends with the browser, or before, with the process. */
export const cookieLine = (port: number, value: string): string =>
  `${cookieNameOf(port)}=${value}; HttpOnly; SameSite=Strict; Path=/`

const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('base64')

/** Makes a place for another one; both collections keep the order of insertion. */
function forgetFirst(kept: Map<string, unknown> | Set<string>, max: number): void {
  const [first] = kept.keys()
  if (kept.size >= max && first !== undefined) kept.delete(first)
}

/** An empty text for a body that is no code. */
export function readCode(bytes: Uint8Array): string {
  const parsed = parseJson(Buffer.from(bytes).toString())
  const body: unknown = parsed.ok ? parsed.value : undefined
  const code: unknown = typeof body === 'object' && body !== null ? Reflect.get(body, 'code') : undefined
  return typeof code === 'string' ? code : ''
}

// ---- requests of a browser -----------------------------------------------------------------------------------------

export interface BrowserRequest {
  readonly head: RequestHead
  readonly cookies: string
  readonly fetchSite: string
  readonly fetchDest: string
}

const READ_HEADERS = ['cookie', 'sec-fetch-site', 'sec-fetch-dest']

/**
 * Admits the requests of a page's own documents, and refuses everything that another page has caused.
 *
 * Any web page in the person's browser can reach this port. The Host must name loopback, which stops DNS rebinding; an
 * Origin must be the one that the request goes to; and a browser that says where the request comes from must name the
 * same origin, or the person. Only a link to the first document may stand on a page of another port.
 */
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
export function refuseForeign(request: BrowserRequest): Reply | undefined {
  const { head, fetchSite } = request
  if (head.hosts !== 1 || !isLoopbackHost(head.host)) return HOST_REFUSED
  const isOwnOrigin =
    head.origins === 0 || (head.origins === 1 && head.origin === `http://${head.host}`.toLowerCase())
  const isOwnSite = fetchSite === '' || fetchSite === 'same-origin' || fetchSite === 'none' || isLink(request)
  return isOwnOrigin && isOwnSite ? undefined : ORIGIN_REFUSED
}

/**
 * Another page of this machine may lead to the first document, which holds nothing: the dashboard leads to the
 * inspector.
 */
const isLink = ({ head: { method, path }, fetchSite, fetchDest }: BrowserRequest): boolean =>
  fetchSite === 'same-site' && fetchDest === 'document' && method === 'GET' && path === '/'

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
