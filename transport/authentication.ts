/**
 * Decides whether a request comes from a trusted client, as pure functions over its headers.
 *
 * Any web page in the person's browser can reach this port. Three checks keep pages out: the Host header must be a
 * loopback name, literally (which stops DNS rebinding); an Origin must be trusted; and the launch token must be present.
 * Unusual spellings of loopback (`localhost.`, `127.1`, `[0:0:0:0:0:0:0:1]`) are refused, because no client uses them
 * and a narrower check is easier to verify.
 */
import { timingSafeEqual } from 'node:crypto'
import { LAUNCH_TOKEN_CHARS_MAX } from '../protocol/limits.ts'
import { LOOPBACK_IPV4 } from '../protocol/loopback.ts'

const LOOPBACK = `(?:localhost|${LOOPBACK_IPV4}|\\[::1\\])`
const PORT = '(?::(?:0|[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d\\d|655[0-2]\\d|6553[0-5]))?'

const LOOPBACK_HOST = new RegExp(`^${LOOPBACK}${PORT}$`, 'i')
/** Browsers write origins in lower case and without a path, so other spellings are refused. */
const LOOPBACK_ORIGIN = new RegExp(`^http://${LOOPBACK}${PORT}$`)
const DESKTOP_ORIGIN = /^(?:file:\/\/|app:\/\/[a-z0-9.-]*)$/
const HOST_CHARS_MAX = 64
const ORIGIN_CHARS_MAX = 512

/** Whether a Host header names the loopback interface, with or without a port. */
export function isLoopbackHost(host: string): boolean {
  return host.length <= HOST_CHARS_MAX && LOOPBACK_HOST.test(host)
}

/** Whether a page of this origin may send requests. `listed`: the origins that the configuration allows in addition. */
export function isTrustedOrigin(origin: string, listed: readonly string[]): boolean {
  if (origin.length > ORIGIN_CHARS_MAX) return false
  if (LOOPBACK_ORIGIN.test(origin) || DESKTOP_ORIGIN.test(origin)) return true
  return PRINTABLE.test(origin) && listed.includes(origin)
}

const PRINTABLE = /^[\x21-\x7e]+$/
/** The launch token is the longest accepted secret; a worker's credential has a tenth of its length. */
const BEARER = new RegExp(`^bearer +([\\x21-\\x7e]{1,${LAUNCH_TOKEN_CHARS_MAX}})$`, 'i')

/** The bearer token of an Authorization header; undefined when the header has another form. */
export function readBearer(authorization: string): string | undefined {
  return BEARER.exec(authorization)?.[1]
}

/** Compares a secret in a time that does not depend on its characters. The length of a secret is no secret. */
export function createSecretCheck(secret: string): (presented: string | undefined) => boolean {
  const expected = Buffer.from(secret)
  return (presented) => {
    if (presented === undefined) return false
    const bytes = Buffer.from(presented)
    return bytes.length === expected.length && timingSafeEqual(bytes, expected)
  }
}
