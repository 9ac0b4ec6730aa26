/**
 * One question to the host's management API, and its answer; bounded both ways.
 *
 * A refusal is the host's own sentence; that nobody answers is an end of its own, with the exit code for it.
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
  /** What it may take to answer, all in all. */
  readonly timeoutMs?: number
}

/** As it came. */
export interface HostReply {
  readonly status: number
  readonly text: string
}

/** Answers what the host answers; fails with the sentence and the exit code for the person. */
export async function askHost(
  at: HostAddress,
  { method, path, timeoutMs: ms = ANSWER_MS_MAX }: HostRequest,
): Promise<unknown> {
  const said = await sendRequest(at, method, path, ms)
  const parsed = parseJson(said.text, Number.POSITIVE_INFINITY)
  if (said.status >= 200 && said.status < 300 && parsed.ok) return parsed.value
  throw new ExitError(EXIT.refused, formatRefusal(at, said))
}

/** What a reply that is no good comes to, for the person. */
export function formatRefusal(at: HostAddress, { status, text }: HostReply): string {
  if (status === 401)
    return `the host at ${at.url} does not take the token of ${at.tokenFrom}; ${adviceFor(at)}`
  const parsed = parseJson(text, Number.POSITIVE_INFINITY)
  const said: unknown = parsed.ok ? Reflect.get(Object(parsed.value), 'error') : undefined
  const sentence = typeof said === 'string' ? removeControls(said).slice(0, SENTENCE_CHARS_MAX) : undefined
  return sentence ?? `${at.url} answered ${status}, and not as a host does`
}

const adviceFor = ({ isFromEnvironment: isNamed }: HostAddress): string =>
  isNamed === true
    ? 'it has another one since it was started again: the launch.json in its data directory has it'
    : 'another host may have its port: start this one again, or name the right one with --data-dir'

async function sendRequest(at: HostAddress, method: string, path: string, ms: number): Promise<HostReply> {
  try {
    const response = await fetch(`${at.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${at.token}` },
      // A redirect would take the token to where nobody sent it.
      redirect: 'manual',
      signal: AbortSignal.timeout(ms),
    })
    return { status: response.status, text: await readLimited(response) }
  } catch (error) {
    throw new ExitError(EXIT.unavailable, `no host answers at ${at.url} (${errorReason(error)})`)
  }
}

async function readLimited(response: Response): Promise<string> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of response.body ?? []) {
    bytes += piece.byteLength
    if (bytes > HTTP_ANSWER_BYTES_MAX) throw new Error('it says too much')
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString()
}

/** The interesting part of a failed fetch is its cause. */
function errorReason(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  if (code !== '') return code
  return (cause instanceof Error ? cause.message : String(cause)).slice(0, ERROR_VALUE_CHARS_MAX)
}
