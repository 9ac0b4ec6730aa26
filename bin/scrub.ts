/**
 * The second net under the log: whatever a careless line carries, known secrets and everything shaped like one are
 * struck out of the text before it is written. The first net is not to log them.
 */

/** Tokens by their makers' own prefixes, and whatever follows a Bearer. */
const SHAPES = [
  /\b(?:w[pc]-)[A-Za-z0-9_-]{20,}/g,
  /\b(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{16,}/g,
  /\blin_(?:api|oauth|wh)_[A-Za-z0-9]{16,}/g,
  /\bsk-[A-Za-z0-9_-]{16,}/g,
  /\bAIza[A-Za-z0-9_-]{30,}/g,
  /(?<=\b[Bb]earer )[A-Za-z0-9._~+/=-]{8,}/g,
  /(?<=[?&](?:token|code|state)=)[^&\s"'\\]+/g,
]

/** Shorter ones would strike out half of every line. */
const SECRET_CHARS_MIN = 8

export class Scrubber {
  #known: readonly string[] = []

  /** The secrets of this moment, as they would look in a line of JSON. */
  know(secrets: readonly string[]): void {
    this.#known = secrets
      .filter((secret) => secret.length >= SECRET_CHARS_MIN)
      .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)])
      .filter((form, at, all) => all.indexOf(form) === at)
      .sort((a, b) => b.length - a.length)
  }

  scrub(text: string): string {
    let clean = text
    for (const secret of this.#known) if (clean.includes(secret)) clean = clean.replaceAll(secret, '***')
    for (const shape of SHAPES) clean = clean.replace(shape, '***')
    return clean
  }
}
