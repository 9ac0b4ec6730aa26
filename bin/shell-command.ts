/** Command lines that people may copy: by the name on their PATH, or by the file that was started. */
import { basename } from 'node:path'

export function commandLine(program: string, ...args: readonly string[]): string {
  const called = basename(program) === 'switchyard' ? ['switchyard'] : ['node', program]
  return [...called, ...args].map(asWord).join(' ')
}

/** As a shell takes it for one word. */
function asWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
