/**
 * This file makes a provider's text safe to display and to log: one line, of limited length, without the given secrets.
 *
 * Providers redact secrets themselves; this is the second barrier.
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
