/**
 * Makes foreign text safe to show: on one line and without invisible characters.
 *
 * Invisible characters can reorder a terminal's line, hide words from a reader that an agent obeys, or make two names
 * look alike. Removing them also takes the joiners out of some emoji, which is acceptable.
 */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}]/gu

const DIRECTION = /[\u202a-\u202e\u2066-\u2069]/g
/** No script puts more marks on one letter; thousands of them paint over the lines above. */
const MARKS = /(\p{M}{8})\p{M}+/gu

/**
 * A title of anybody: its marks turn no words around it, and cover nothing above it. Scripts and emoji keep their
 * letters, joiners and usual marks.
 */
export function steadyTitle(text: string): string {
  return text.replace(DIRECTION, '\ufffd').replace(MARKS, '$1')
}

export function stripInvisible(text: string): string {
  return text.replace(INVISIBLE, '')
}

export function collapseSpaces(text: string): string {
  return text.replace(/\s+/gu, ' ').trim()
}

/** A line end separates words, so white space is collapsed before invisible characters are removed. */
export function toSingleLine(text: string): string {
  return collapseSpaces(stripInvisible(collapseSpaces(text)))
}

/** Returns at most `charsMax` UTF-16 units, and never half of a surrogate pair. */
export function truncate(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text
  return text.slice(0, charsMax).replace(/[\uD800-\uDBFF]$/, '')
}
