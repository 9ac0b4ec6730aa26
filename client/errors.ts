/**
 * Why a request has no answer: the host refused it, or no host was reached.
 *
 * Messages are for people. They quote the host's own sentence, without control characters, and never the token.
 */
import { messageOf } from '../protocol/message-of.ts'
import type { HostAddress, HostReply } from './connection.ts'

/** Too slow, too early, too many. */
const PASSING_STATUSES = [408, 425, 429]

/** The host answered with an error. */
export class HostRefusal extends Error {
  readonly status: number
  /** Like `GET /api/runs`. */
  readonly request: string
  /** The parsed body of the answer, for output as JSON. */
  readonly body: unknown
  /** A caller that knows more may set it. */
  cure: string | undefined
  /** Asking again brings the same answer. A restarted host has another token, and a proxy answers 5xx while its host is away. */
  readonly isLasting: boolean

  constructor(at: HostAddress, reply: HostReply, request: string) {
    const { message, cure } = describeRefusal(at, reply)
    super(message)
    this.status = reply.status
    this.request = request
    this.body = parseOrUndefined(reply.text)
    this.cure = cure
    this.isLasting =
      reply.status < 500 &&
      !PASSING_STATUSES.includes(reply.status) &&
      (reply.status !== 401 || at.isFromEnvironment === true)
  }
}

/** No host answered. */
export class HostUnreachable extends Error {
  readonly url: string
  readonly cure: string

  constructor(at: Pick<HostAddress, 'url' | 'isFromEnvironment'>, reason: string) {
    super(`no host answers at ${at.url} (${withoutControls(reason)})`)
    this.url = at.url
    this.cure = at.isFromEnvironment === true ? 'check SWITCHYARD_URL, or unset it' : 'switchyard serve'
  }
}

/** Another user's program is at the host's port, or nobody can say whose it is. No secret was sent. */
export class ForeignPeer extends HostUnreachable {
  override readonly cure: string

  constructor(sentence: string, cure: string) {
    super({ url: '' }, '')
    this.message = withoutControls(sentence)
    this.cure = cure
  }
}

/** No host is named or found. */
export class HostNotFound extends Error {
  readonly cure: string

  constructor(message: string, cure: string) {
    super(message)
    this.cure = cure
  }
}

/** The host is away for now, and asking again may help. */
export const isPassing = (error: unknown): boolean =>
  error instanceof HostUnreachable ||
  error instanceof HostNotFound ||
  (error instanceof HostRefusal && !error.isLasting)

/** The address or the token that names the host cannot be used. */
export class WrongAddress extends Error {}

interface RefusalText {
  readonly message: string
  readonly cure?: string
}

const SENTENCE_CHARS_MAX = 2_000

/** The message for the person about a reply that is not a success. */
export function describeRefusal(at: HostAddress, { status, text, challenge }: HostReply): RefusalText {
  if (status === 401) return describeTokenRefusal(at, challenge)
  const error: unknown = Reflect.get(Object(parseOrUndefined(text)), 'error')
  if (typeof error === 'string') return { message: withoutControls(error).slice(0, SENTENCE_CHARS_MAX) }
  return { message: `${at.url} answered ${status} in a form that a host does not use` }
}

function describeTokenRefusal(at: HostAddress, challenge: string | undefined): RefusalText {
  const from = at.tokenFrom ?? 'this client'
  // Every request carries the token, so a missing one was lost on the way.
  if (challenge?.toLowerCase() === 'bearer')
    return {
      message: `the token of ${from} did not reach the host at ${at.url}`,
      cure: 'let the proxy in front of it pass on the Authorization header',
    }
  if (at.isFromEnvironment === true)
    return {
      message: `the host at ${at.url} refused ${from}`,
      cure: `unset ${from} SWITCHYARD_URL, then launch.json is read`,
    }
  return {
    message: `the host at ${at.url} refused the token of ${from}; another host may use its port`,
    cure: 'restart the host, or name the right one with --data-dir',
  }
}

/** Replaces control characters, so that a host's text cannot control a terminal. */
export function withoutControls(text: string): string {
  return text.replace(/\r\n/g, '\n').replace(/[^\P{C}\n\t]/gu, '\u{fffd}')
}

export function parseOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const REASON_CHARS_MAX = 300

/** The useful part of a failed request is its innermost cause, and of that its code. */
export function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code: unknown = Reflect.get(Object(cause), 'code')
  if (typeof code === 'string' && code !== '') return code
  return messageOf(cause).slice(0, REASON_CHARS_MAX)
}
