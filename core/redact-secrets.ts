/**
 * Striking secrets out of text that somebody else wrote.
 *
 * Whoever repeats what he was asked repeats it as it was sent: as it is, as it stands in JSON, in an address, in a form
 * or in base64. All of these forms are struck, so that text may be shown, kept or logged afterwards. It is the second
 * net: the first is not to repeat a stranger's text at all.
 */
import { MASK } from '../protocol/config.ts'

/** Shorter ones would tear words apart, and are nobody's secret. */
const SECRET_CHARS_MIN = 6
/** Fewer characters of base64 would be found in anything. */
const BASE64_CHARS_MIN = 12

export function redactSecrets(text: string, secrets: readonly (string | null | undefined)[]): string {
  return redactForms(text, encodedForms(secrets))
}

/** For a text of many pieces: the forms are made once. */
export function createRedactor(secrets: readonly (string | null | undefined)[]): (text: string) => string {
  const forms = encodedForms(secrets)
  return (text) => redactForms(text, forms)
}

function redactForms(text: string, forms: readonly string[]): string {
  return forms.reduce((left, form) => (left.includes(form) ? left.replaceAll(form, MASK) : left), text)
}

/** The longest first, for one may be part of another. */
function encodedForms(secrets: readonly (string | null | undefined)[]): string[] {
  const forms = secrets.filter(isSecret).flatMap(encodedFormsOf)
  return [...new Set(forms)].sort((a, b) => b.length - a.length)
}

const isSecret = (secret: string | null | undefined): secret is string =>
  typeof secret === 'string' && secret.length >= SECRET_CHARS_MIN

function encodedFormsOf(secret: string): string[] {
  const jsonForm = JSON.stringify(secret).slice(1, -1)
  // What was said in JSON may have been said in JSON itself.
  const inJsonTwice = JSON.stringify(jsonForm).slice(1, -1)
  const inForm = new URLSearchParams({ s: secret }).toString().slice('s='.length)
  return [secret, jsonForm, inJsonTwice, inAddress(secret), inForm, ...inBase64(secret)]
}

/** Half a character has no place in an address, and is sent as the one that stands for what is none. */
function inAddress(secret: string): string {
  return encodeURIComponent(Buffer.from(secret).toString())
}

/** As it reads after none, one or two other bytes, without what its neighbours have a part in. */
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
