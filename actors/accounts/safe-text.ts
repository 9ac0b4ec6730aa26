/**
 * What somebody else said, made fit for a person and for the log: of one line, of bounded length, and without the
 * secrets that it was said about. Providers leave those out; this is for the one that does not.
 */
import { redactSecrets } from '../../core/redact-secrets.ts'
import { printable } from '../../protocol/schema-errors.ts'

const SAFE_TEXT_CHARS_MAX = 2_000

export function safeText(text: string, secrets: readonly (string | null | undefined)[] = []): string {
  const redacted = redactSecrets(text, secrets)
  return printable(
    redacted.length > SAFE_TEXT_CHARS_MAX ? `${redacted.slice(0, SAFE_TEXT_CHARS_MAX)}…` : redacted,
  )
}
