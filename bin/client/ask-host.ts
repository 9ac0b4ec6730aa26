/**
 * Sends one request to the host's management API, with limits on time and on the size of the answer.
 *
 * A refusal ends the command with the host's own message. An unreachable host has an exit code of its own.
 */
import { ERROR_VALUE_CHARS_MAX, HTTP_ANSWER_BYTES_MAX } from '../../protocol/limits.ts'
import { parseJson } from '../../protocol/parse.ts'
import { EXIT, ExitError } from '../exit.ts'
import { removeControls } from '../quickstart/colors.ts'
import type { HostAddress } from './find-host.ts'

const ANSWER_MS_MAX = 10_000
const SENTENCE_CHARS_MAX = 2_000

export interface HostRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** The time limit of the whole request. */
  readonly timeoutMs?: number
}

/** The unparsed answer of a host. */
export interface HostReply {
  readonly status: number
  readonly text: string
  /** The header `WWW-Authenticate`, which tells a wrong token from a missing one. */
  readonly challenge?: string
}

/** Returns the parsed answer; throws an `ExitError` with the message for the person. */
export async function askHost(
  at: HostAddress,
  { method, path, timeoutMs: ms = ANSWER_MS_MAX }: HostRequest,
): Promise<unknown> {
  const answer = await sendRequest(at, method, path, ms)
  const parsed = parseJson(answer.text, Number.POSITIVE_INFINITY)
  if (answer.status >= 200 && answer.status < 300 && parsed.ok) return parsed.value
  throw new ExitError(EXIT.refused, formatRefusal(at, answer))
}

/** The message for the person about a reply that is not a success. */
export function formatRefusal(at: HostAddress, { status, text, challenge }: HostReply): string {
  if (status === 401) return formatTokenRefusal(at, challenge)
  const parsed = parseJson(text, Number.POSITIVE_INFINITY)
  const error: unknown = parsed.ok ? Reflect.get(Object(parsed.value), 'error') : undefined
  const message = typeof error === 'string' ? removeControls(error).slice(0, SENTENCE_CHARS_MAX) : undefined
  return message ?? `${at.url} answered ${status} in a form that a host does not use`
}

/** Every request of this command carries a token, so a missing one was lost on the way. */
function formatTokenRefusal(at: HostAddress, challenge: string | undefined): string {
  if (challenge?.toLowerCase() === 'bearer')
    return `the token of ${at.tokenFrom} did not reach the host at ${at.url}; let the proxy in front of it pass on the Authorization header`
  return `the host at ${at.url} does not accept the token of ${at.tokenFrom}, because that is not its present one; ${adviceFor(at)}`
}

const adviceFor = ({ isFromEnvironment }: HostAddress): string =>
  isFromEnvironment === true
    ? 'a host gets a new token at each start: unset SWITCHYARD_URL and SWITCHYARD_TOKEN to read launch.json, or take the token from the launch.json in its data directory'
    : 'another host may use its port: restart this one, or name the right one with --data-dir'

async function sendRequest(at: HostAddress, method: string, path: string, ms: number): Promise<HostReply> {
  try {
    const response = await fetch(`${at.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${at.token}` },
      // A redirect would send the token to another address.
      redirect: 'manual',
      signal: AbortSignal.timeout(ms),
    })
    const challenge = response.headers.get('www-authenticate')
    return {
      status: response.status,
      text: await readLimited(response),
      ...(challenge === null ? {} : { challenge }),
    }
  } catch (error) {
    throw new ExitError(EXIT.unavailable, `no host answers at ${at.url} (${errorReason(error)})`)
  }
}

async function readLimited(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength
    if (bytes > HTTP_ANSWER_BYTES_MAX) throw new Error('the answer is too long')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** The useful part of a failed fetch is its cause. */
function errorReason(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  if (code !== '') return code
  return (cause instanceof Error ? cause.message : String(cause)).slice(0, ERROR_VALUE_CHARS_MAX)
}
