/**
 * Names that people type, compared and listed the way people mean them.
 *
 * A state is `Todo` in the tracker and `todo` in somebody's configuration: case and outer spaces tell nothing apart.
 */

import { NAMES_LISTED_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'

export const normalizeName = (name: string): string => name.trim().toLowerCase()

export const isSameName = (a: string, b: string): boolean => normalizeName(a) === normalizeName(b)

/** `a, b, c`; a long list ends in how many there are besides. */
export function formatNames(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_LISTED_MAX).map(printable).join(', ')
  const more = names.length - NAMES_LISTED_MAX
  return more > 0 ? `${shown} and ${more} more` : shown
}
