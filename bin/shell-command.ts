/** Formats a command line that people can copy: with the name on the PATH, or with the started file. */
import { basename } from 'node:path'
import { quoteWord } from '../protocol/quote-word.ts'

export function shellWords(program: string, ...args: readonly string[]): readonly string[] {
  const called = basename(program) === 'switchyard' ? ['switchyard'] : ['node', program]
  return [...called, ...args].map(quoteWord)
}

export const shellCommand = (program: string, ...args: readonly string[]): string =>
  shellWords(program, ...args).join(' ')
