/**
 * The second net under the log: whatever a careless line carries, known secrets and everything shaped like one are
 * struck out of the text before it is written. The first net is not to log them.
 */

/** Tokens by their makers' own prefixes, and whatever follows a Bearer. */
const TOKEN_PATTERNS = [
  /\b(?:w[pc]-)[A-Za-z0-9_-]{20,}/g,
  /\b(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{16,}/g,
  /\blin_(?:api|oauth|wh)_[A-Za-z0-9]{16,}/g,
  /\bsk-[A-Za-z0-9_-]{16,}/g,
  /\bAIza[A-Za-z0-9_-]{30,}/g,
  /(?<=\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}/gi,
  /(?<=:\/\/[^\s/:@]*:)[^\s/@]+(?=@)/g,
  /(?<=[?&](?:token|code|state)=)[^&\s"'\\]+/g,
]

/** Shorter ones would strike out half of every line. */
const SECRET_CHARS_MIN = 8

/** The old ones are kept for a while: an error that was under way when a secret was changed may still quote it. */
const SECRETS_KNOWN_MAX = 200

export class LogRedactor {
  #secrets: readonly string[] = []
  #encodedSecrets: readonly string[] = []

  /** More secrets to strike out, in every form in which a line of JSON may show them. */
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
