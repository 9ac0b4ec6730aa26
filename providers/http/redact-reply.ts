/**
 * redactReply removes the request's credential from a reply.
 *
 * Error pages often repeat what was sent, and error texts are displayed, stored and logged. No reply has a reason to
 * contain the credential of its own request.
 */
import { createRedactor } from '../../core/redact-secrets.ts'

interface SentRequest {
  readonly headers: Readonly<Record<string, string>>
  readonly secrets?: readonly string[]
}

interface ReplyText {
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

/** The headers in which services receive a credential. */
const CREDENTIAL_HEADERS = ['authorization', 'x-api-key', 'x-goog-api-key']
const AUTHORIZATION_SCHEME = /^(bearer|basic|token) +/i

export function redactReply<Reply extends ReplyText>(
  reply: Reply,
  { headers, secrets = [] }: SentRequest,
): Reply {
  const credentials = CREDENTIAL_HEADERS.flatMap(
    (name) => headers[name]?.replace(AUTHORIZATION_SCHEME, '') ?? [],
  )
  if (credentials.length + secrets.length === 0) return reply
  const redact = createRedactor([...credentials, ...secrets])
  const redactedHeaders = Object.entries(reply.headers).map(([name, value]) => [name, redact(value)])
  return { ...reply, headers: Object.fromEntries(redactedHeaders), text: redact(reply.text) }
}
