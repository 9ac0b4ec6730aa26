/** Shortens paths for people: the home folder is `~`. JSON and commands to copy keep whole paths. */
import { homeFolder } from '../data-dir.ts'

/** Replaces the home folder at the beginning of each path in a text. */
export function shortenHome(text: string, home = homeFolder()): string {
  const folder = home.replace(/\/+$/, '')
  // A user without a home has the root folder, and every path begins with it.
  if (folder === '') return text
  return text.replace(new RegExp(`(?<![\\w/.-])${escapePattern(folder)}(?=[/\\s:;,)]|$)`, 'g'), '~')
}

const escapePattern = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
