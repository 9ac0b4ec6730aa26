/**
 * What somebody else said, made fit for a person and for the log: of one line, of bounded length, and without the
 * secrets that it was said about. Providers leave those out; this is for the one that does not.
 */
import { strike } from '../../core/redact-secrets.ts'
import { printable } from '../../protocol/schema-errors.ts'

const SENTENCE_CHARS_MAX = 2_000

export function sentence(text: string, secrets: readonly (string | null | undefined)[] = []): string {
  const hidden = strike(text, secrets)
  return printable(hidden.length > SENTENCE_CHARS_MAX ? `${hidden.slice(0, SENTENCE_CHARS_MAX)}…` : hidden)
}
