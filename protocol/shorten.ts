/** Shortens a text at its end to at most so many UTF-16 units, the ellipsis included, and never to half of a character. */
export function shortenEnd(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : `${text.slice(0, charsMax - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}

/** Shortens branches and paths in their middle, so that both ends stay legible. */
export function shortenMiddle(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text
  const tail = Math.floor((charsMax - 1) / 2)
  return `${text.slice(0, charsMax - 1 - tail)}…${tail === 0 ? '' : text.slice(-tail)}`
}
