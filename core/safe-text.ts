/**
 * Text of strangers made fit to show: on one line, and with nothing in it that cannot be seen.
 *
 * What is invisible can reorder a terminal's line, hide words from a reader that an agent obeys, or make two names
 * look alike. That also takes the joiners out of some emoji, which is a small price.
 */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}]/gu

export function stripInvisible(text: string): string {
  return text.replace(INVISIBLE, '')
}

export function collapseSpaces(text: string): string {
  return text.replace(/\s+/gu, ' ').trim()
}

/** A line end parts words, so white space is folded before what is invisible goes. */
export function toSingleLine(text: string): string {
  return collapseSpaces(stripInvisible(collapseSpaces(text)))
}

/** At most so many UTF-16 units, and never half a character. */
export function truncate(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text
  return text.slice(0, charsMax).replace(/[\uD800-\uDBFF]$/, '')
}
