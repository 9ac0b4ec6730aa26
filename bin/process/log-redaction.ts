/**
 * Redacts known secrets and everything that looks like a token before log text is written.
 *
 * This is the second safeguard; the first is not to log secrets.
 */

/** Tokens by their vendors' prefixes, and the values of authorization headers, URLs and query parameters. */
const TOKEN_PATTERNS = [
  /\b(?:w[pcj]-)[A-Za-z0-9_-]{20,}/g,
  /\b(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{16,}/g,
  /\blin_(?:api|oauth|wh)_[A-Za-z0-9]{16,}/g,
  /\bsk-[A-Za-z0-9_-]{16,}/g,
  /\bAIza[A-Za-z0-9_-]{30,}/g,
  /(?<=\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}/gi,
  /(?<=:\/\/[^\s/:@]*:)[^\s/@]+(?=@)/g,
  /(?<=[?&](?:token|code|state)=)[^&\s"'\\]+/g,
]

/** Shorter secrets would redact ordinary words. */
const SECRET_CHARS_MIN = 8

/** Old secrets are kept for a while, because a pending error may still quote a secret that was changed. */
const SECRETS_KNOWN_MAX = 200

export class LogRedactor {
  #secrets: readonly string[] = []
  #encodedSecrets: readonly string[] = []

  /** Adds secrets to redact, in every encoding in which JSON or a URL may contain them. */
  addSecrets(secrets: readonly string[]): void {
    const long = secrets.filter((secret) => secret.length >= SECRET_CHARS_MIN)
    this.#secrets = [...new Set([...long, ...this.#secrets])].slice(0, SECRETS_KNOWN_MAX)
    const forms = this.#secrets.flatMap((secret) => [
      secret,
      JSON.stringify(secret).slice(1, -1),
      encodeURIComponent(secret),
    ])
    this.#encodedSecrets = [...new Set(forms)].sort((a, b) => b.length - a.length)
  }

  redact(text: string): string {
    let clean = text
    for (const form of this.#encodedSecrets) if (clean.includes(form)) clean = clean.replaceAll(form, '***')
    for (const shape of TOKEN_PATTERNS) clean = clean.replace(shape, '***')
    return clean
  }
}
