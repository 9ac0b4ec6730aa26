/**
 * Decides who may use a page: codes are good once and for a short time, and are exchanged for cookies.
 *
 * A code travels in the fragment of a link, which is in no log and no Referer. The cookie's name holds the port, because
 * cookies of one host are shared by all its ports. Only hashes are kept, and all end with the process.
 */
import { createHash, randomBytes } from 'node:crypto'
import type { Clock } from '../../core/ports.ts'
import { PAGE_CODE_SECONDS, PAGE_CODES_MAX, PAGE_SESSIONS_MAX } from '../../protocol/limits.ts'
import { parseJson } from '../../protocol/parse.ts'

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
