/** Reads the SHA-256 fingerprint of a certificate or of its key, in the forms that openssl and the commands print. */
import { no, type Result, yes } from '../result.ts'

/** Returns 64 hexadecimal digits in lower case. */
export function parseFingerprint(text: string): Result<string> {
  const digits = text.replaceAll(':', '').toLowerCase()
  if (/^[0-9a-f]{64}$/.test(digits)) return yes(digits)
  return no(
    'invalid',
    '--fingerprint: must be a SHA-256 fingerprint, 64 hexadecimal digits with or without colons, as printed by switchyard workers pair on the host',
  )
}

/** The form of openssl: `AB:CD:…`. */
export const formatFingerprint = (digits: string): string => digits.toUpperCase().replace(/..(?!$)/g, '$&:')
