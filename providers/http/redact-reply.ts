/**
 * What a service said, without the credential that it was asked with.
 *
 * Error pages and messages repeat what was sent more often than one would think, and what is said of a failure is shown,
 * kept and logged. No reply has a reason to hold the credential of its own request.
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

/** How services take a credential. */
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
