/**
 * What a service said, without the credential that it was asked with.
 *
 * Error pages and messages repeat what was sent more often than one would think, and what is said of a failure is shown,
 * kept and logged. No reply has a reason to hold the credential of its own request.
 */
import { striker } from '../../core/redact-secrets.ts'

interface Sent {
  readonly headers: Readonly<Record<string, string>>
  readonly secrets?: readonly string[]
}

interface Said {
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

/** How services take a credential. */
const CREDENTIAL_HEADERS = ['authorization', 'x-api-key', 'x-goog-api-key']
const SCHEME = /^(bearer|basic|token) +/i

export function struck<Reply extends Said>(reply: Reply, { headers, secrets = [] }: Sent): Reply {
  const credentials = CREDENTIAL_HEADERS.flatMap((name) => headers[name]?.replace(SCHEME, '') ?? [])
  if (credentials.length + secrets.length === 0) return reply
  const clean = striker([...credentials, ...secrets])
  const cleaned = Object.entries(reply.headers).map(([name, value]) => [name, clean(value)])
  return { ...reply, headers: Object.fromEntries(cleaned), text: clean(reply.text) }
}
