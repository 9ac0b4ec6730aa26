/**
 * Compares and formats names that people type.
 *
 * A state is `Todo` in the tracker and `todo` in a configuration, so case and outer spaces are ignored.
 */
import { NAMES_LISTED_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'

export const normalizeName = (name: string): string => name.trim().toLowerCase()

export const isSameName = (a: string, b: string): boolean => normalizeName(a) === normalizeName(b)

/** Returns `a, b, c`; a long list ends with the number of names left out. */
export function formatNames(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_LISTED_MAX).map(printable).join(', ')
  const more = names.length - NAMES_LISTED_MAX
  return more > 0 ? `${shown} and ${more} more` : shown
}
