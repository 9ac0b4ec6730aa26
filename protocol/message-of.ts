/** The message of whatever was thrown. An error of another realm is no `instanceof` this one's, so its field is read. */
export function messageOf(error: unknown): string {
  if (typeof error === 'object' && error !== null && 'message' in error) return String(error.message)
  return String(error)
}
