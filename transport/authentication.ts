/**
 * Who may ask at all: pure questions about what a request says of where it comes from and who sends it.
 *
 * The host answers programs on this machine, and any web page in the user's browser is a program on this machine.
 * Three fences keep pages out: the Host must be a loopback name, letter by letter (a rebound DNS name is not one);
 * an Origin must be one that the person trusts; and a token that no page can know must come along.
 *
 * `localhost.` with a trailing dot, `127.1`, `[0:0:0:0:0:0:0:1]` and the like do reach this machine, but no client
 * writes them, so they are refused: a fence with fewer shapes is easier to check.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { LAUNCH_TOKEN_CHARS_MAX } from '../protocol/limits.ts'
import { LOOPBACK_IPV4 } from '../protocol/schema-helpers.ts'

const LOOPBACK = `(?:localhost|${LOOPBACK_IPV4}|\\[::1\\])`
const PORT = '(?::(?:0|[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d\\d|655[0-2]\\d|6553[0-5]))?'

const LOOPBACK_HOST = new RegExp(`^${LOOPBACK}${PORT}$`, 'i')
/** Browsers write origins in lower case, without a path; whatever looks different was not written by one. */
const LOOPBACK_ORIGIN = new RegExp(`^http://${LOOPBACK}${PORT}$`)
const DESKTOP_ORIGIN = /^(?:file:\/\/|app:\/\/[a-z0-9.-]*)$/
const HOST_CHARS_MAX = 64
const ORIGIN_CHARS_MAX = 512

/** Exactly one Host header, naming this machine's loopback, with or without a port. */
export function isLoopbackHost(host: string): boolean {
  return host.length <= HOST_CHARS_MAX && LOOPBACK_HOST.test(host)
}

/** May a page of this origin talk to us? `listed` is what the person allowed beyond the built-in ones. */
export function isTrustedOrigin(origin: string, listed: readonly string[]): boolean {
  if (origin.length > ORIGIN_CHARS_MAX) return false
  if (LOOPBACK_ORIGIN.test(origin) || DESKTOP_ORIGIN.test(origin)) return true
  return PRINTABLE.test(origin) && listed.includes(origin)
}

const PRINTABLE = /^[\x21-\x7e]+$/
/** The launch token is the longest secret that is presented here; a worker's credential is a tenth of it. */
const BEARER = new RegExp(`^bearer +([\\x21-\\x7e]{1,${LAUNCH_TOKEN_CHARS_MAX}})$`, 'i')

/** What an Authorization header presents, if it is a bearer token at all. */
export function readBearer(authorization: string): string | undefined {
  return BEARER.exec(authorization)?.[1]
}

/**
 * Tells a secret from anything else in a time that depends on neither: both sides are hashed first, so the
 * compared bytes are of one length and nobody can steer them.
 */
export function createSecretCheck(secret: string): (presented: string | undefined) => boolean {
  const expected = sha256(secret)
  return (presented) => timingSafeEqual(sha256(presented ?? ''), expected) && presented !== undefined
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
