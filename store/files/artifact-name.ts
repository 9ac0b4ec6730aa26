/**
 * Why a name cannot be an artifact's: anything that could mean another place, or no place at all.
 *
 * The name comes as it is meant, already decoded, once. Nothing is repaired: a name that would have to be changed to
 * be safe is refused.
 */
import { ARTIFACT_NAME_BYTES_MAX } from '../../protocol/limits.ts'

export function artifactNameFault(name: string): string | undefined {
  if (name === '') return 'an artifact needs a name'
  if (name === '.' || name === '..') return 'the name leads out of the artifact folder'
  if (/[/\\]/.test(name)) return 'the name leads into another folder'
  if (hasControl(name)) return 'the name has control characters'
  // A name that is no text would be written under another name than it was asked for by.
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
