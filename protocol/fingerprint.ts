/** Fingerprints tell equal failures from different ones. */

export const FINGERPRINT_CHARS_MAX = 200

/** The words of a failure without what differs from run to run, so that equal failures are counted as one. */
export function fingerprintOf(error: string): string {
  return error
    .slice(0, 4 * FINGERPRINT_CHARS_MAX)
    .replace(/\b[0-9a-f]{8}-[0-9a-f-]{27}\b/gi, '…')
    .replace(/\b(?=[a-f\d]*\d)[a-f\d]{7,64}\b/gi, '…')
    .replace(/(?:\/[\w.@+-]+){2,}\/?/g, '…')
    .replace(/\b[A-Z][A-Z\d]+-\d+\b/g, '…')
    .replace(/\d+(?:[.:,]\d+)*/g, '…')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, FINGERPRINT_CHARS_MAX)
}
