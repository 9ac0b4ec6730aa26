/** Shortens branches and paths in their middle, so that both ends stay legible. */
export function shortenMiddle(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text
  const tail = Math.floor((charsMax - 1) / 2)
  return `${text.slice(0, charsMax - 1 - tail)}…${tail === 0 ? '' : text.slice(-tail)}`
}
