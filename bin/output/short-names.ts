/**
 * Shortens ids to the digits that people see. `cli/command/names.ts` finds what a typed beginning names.
 *
 * Shown are the 12 digits of a run that name its millisecond and 4 digits of a worker; more where these are not unique.
 */
import { homeFolder } from '../process/data-dir.ts'

export const RUN_DIGITS = 12
export const WORKER_DIGITS = 4
const KIND = /^[a-z]+-/

/** Returns the short form of each id, all of one length. `ids` are the ids that are shown together. */
export function shortenIds(ids: readonly string[], digits: number): ReadonlyMap<string, string> {
  const known = [...new Set(ids)]
  const longest = Math.max(digits, ...known.map((id) => withoutKind(id).length))
  let length = digits
  while (length < longest && new Set(known.map((id) => withoutKind(id).slice(0, length))).size < known.length)
    length += 1
  return new Map(known.map((id) => [id, withoutKind(id).slice(0, length)]))
}

/** The short form of a single id. */
export const shortId = (id: string, digits = RUN_DIGITS): string => withoutKind(id).slice(0, digits)

const withoutKind = (id: string): string => id.replace(KIND, '')

/** The home folder is `~` for people; JSON and commands to copy keep whole paths. */
export function shortenHome(text: string, home = homeFolder()): string {
  const folder = home.replace(/\/+$/, '')
  // A user without a home has the root folder, and every path begins with it.
  if (folder === '') return text
  return text.replace(new RegExp(`(?<![\\w/.-])${escapePattern(folder)}(?=[/\\s:;,)]|$)`, 'g'), '~')
}

const escapePattern = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
