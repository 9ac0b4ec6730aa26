/**
 * Explains why a text cannot be an artifact's name: it could point elsewhere, or nowhere.
 *
 * The name is already decoded. A name that would have to be changed to be safe is refused, not repaired.
 */
import { ARTIFACT_NAME_BYTES_MAX } from '../../protocol/limits.ts'

export function artifactNameFault(name: string): string | undefined {
  if (name === '') return 'the name is empty'
  if (name === '.' || name === '..') return 'the name leads out of the artifact folder'
  if (/[/\\]/.test(name)) return 'the name leads into another folder'
  if (hasControl(name)) return 'the name has control characters'
  // Malformed text would be written under a different name than the requested one.
  if (Buffer.from(name).toString() !== name) return 'the name is not valid text'
  if (Buffer.byteLength(name) > ARTIFACT_NAME_BYTES_MAX)
    return `the name is longer than ${ARTIFACT_NAME_BYTES_MAX} bytes`
  return undefined
}

function hasControl(name: string): boolean {
  for (const char of name) {
    const code = char.codePointAt(0) ?? 0
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return true
  }
  return false
}
