/**
 * Removes secrets from text that another program wrote.
 *
 * A program that repeats its input repeats it as it was sent: plain, in JSON, in a URL, in a form, in base64 or hex. All
 * of these forms are replaced, so that the text may be shown, stored or logged. This is the second line of defence;
 * the first is not to repeat foreign text at all.
 */
import { MASK } from '../protocol/config.ts'

/** Replacing shorter texts would damage ordinary words, and no secret is that short. */
const SECRET_CHARS_MIN = 6
/** Shorter base64 texts would match by accident. */
const BASE64_CHARS_MIN = 12

export function redactSecrets(text: string, secrets: readonly (string | null | undefined)[]): string {
  return redactForms(text, secretForms(secrets))
}

/** Creates a redactor for many pieces of text, so that the forms are computed once. */
export function createRedactor(secrets: readonly (string | null | undefined)[]): (text: string) => string {
  const forms = secretForms(secrets)
  return (text) => redactForms(text, forms)
}

function redactForms(text: string, forms: readonly string[]): string {
  return forms.reduce((left, form) => (left.includes(form) ? left.replaceAll(form, MASK) : left), text)
}

/** The forms in which programs repeat a secret; the longest first, because one form may be part of another. */
export function secretForms(secrets: readonly (string | null | undefined)[]): string[] {
  const forms = secrets.filter(isSecret).flatMap(encodedFormsOf)
  return [...new Set(forms)].sort((a, b) => b.length - a.length)
}

const isSecret = (secret: string | null | undefined): secret is string =>
  typeof secret === 'string' && secret.length >= SECRET_CHARS_MIN

function encodedFormsOf(secret: string): string[] {
  const jsonForm = JSON.stringify(secret).slice(1, -1)
  // JSON may be nested in JSON.
  const inJsonTwice = JSON.stringify(jsonForm).slice(1, -1)
  const inForm = new URLSearchParams({ s: secret }).toString().slice('s='.length)
  const inHex = Buffer.from(secret).toString('hex')
  return [
    secret,
    jsonForm,
    inJsonTwice,
    inAddress(secret),
    inForm,
    ...inBase64(secret),
    inHex,
    inHex.toUpperCase(),
  ]
}

/** A lone surrogate cannot be percent-encoded; it is sent as the replacement character. */
function inAddress(secret: string): string {
  return encodeURIComponent(Buffer.from(secret).toString())
}

/**
 * The base64 forms of the secret after 0, 1 or 2 other bytes, without the characters that depend on neighbouring
 * bytes.
 */
function inBase64(secret: string): string[] {
  const bytes = Buffer.from(secret)
  return [0, 1, 2].flatMap((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replace(/=+$/, '')
    const isWhole = (before + bytes.length) % 3 === 0
    const own = text.slice(before === 0 ? 0 : before + 1, isWhole ? undefined : -1)
    return own.length < BASE64_CHARS_MIN ? [] : [own, own.replaceAll('+', '-').replaceAll('/', '_')]
  })
}
