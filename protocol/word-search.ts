/** Finds texts that have each of the typed words somewhere, without regard to case. */
export function createWordSearch(typed = ''): (text: string) => boolean {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return () => true
  return (text) => {
    const lower = text.toLowerCase()
    return words.every((word) => lower.includes(word))
  }
}
