/** Decodes a part of an address. A part that is not well formed stays as it is. */
export function decodeOrKeep(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
