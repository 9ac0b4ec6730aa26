/** Command lines that people may copy: by the name on their PATH, or by the file that was started. */
import { basename } from 'node:path'

export function shellCommand(program: string, ...args: readonly string[]): string {
  const called = basename(program) === 'switchyard' ? ['switchyard'] : ['node', program]
  return [...called, ...args].map(quoteWord).join(' ')
}

/** As a shell takes it for one word. */
function quoteWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
