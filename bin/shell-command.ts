/** Formats a command line that people can copy: with the name on the PATH, or with the started file. */
import { basename } from 'node:path'

export function shellCommand(program: string, ...args: readonly string[]): string {
  const called = basename(program) === 'switchyard' ? ['switchyard'] : ['node', program]
  return [...called, ...args].map(quoteWord).join(' ')
}

/** Quotes a text as one word for a shell. */
function quoteWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
