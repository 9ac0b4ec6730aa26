/**
 * What somebody else said, made fit for a person and for the log: of one line, of bounded length, and without the
 * secrets that it was said about. Providers leave those out; this is for the one that does not.
 */
import { MASK } from '../../protocol/config.ts'
import { printable } from '../../protocol/explain.ts'

const SENTENCE_CHARS_MAX = 2_000
/** Shorter ones would tear words apart, and are nobody's secret. */
const SECRET_CHARS_MIN = 6

export function sentence(text: string, secrets: readonly (string | null | undefined)[] = []): string {
  const hidden = secrets.reduce<string>(
    (rest, secret) => (isSecret(secret) ? rest.replaceAll(secret, MASK) : rest),
    text,
  )
  return printable(hidden.length > SENTENCE_CHARS_MAX ? `${hidden.slice(0, SENTENCE_CHARS_MAX)}…` : hidden)
}

const isSecret = (secret: string | null | undefined): secret is string =>
  typeof secret === 'string' && secret.length >= SECRET_CHARS_MIN
