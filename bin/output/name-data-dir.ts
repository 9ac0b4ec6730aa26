/**
 * Adds the `--data-dir` of a command line to the commands that a text names: without it, following them acts on the
 * data directory of the environment.
 *
 * A command stands at the beginning of a text, or behind a colon, a comma or a word that joins, and ends with the
 * sentence or before a redirection. Commands of another data directory, and those that name one, stay as they are.
 */
import { quoteWord } from '../../protocol/quote-word.ts'

const WORD = String.raw`(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+?(?=[,;.:)]*(?:\s|$))`
const COMMAND = new RegExp(
  String.raw`(?<=^|[:,;.] |\b(?:and|or|then) |-- |=\S* )switchyard ([a-z][a-z-]*)(?=[\s,;.:)]|$)(?: (?![<>|&])${WORD})*`,
  'g',
)
/** Programs with a data directory of their own, and words without one. */
const WITHOUT = new Set(['completion', 'help', 'oauth-helper', 'quickstart', 'supervise', 'worker'])

/** @param dataDir the value of the option as it was given; undefined where nobody gave it */
export function nameDataDir(text: string, dataDir: string | undefined): string {
  if (dataDir === undefined || dataDir === '') return text
  const option = ` --data-dir ${quoteWord(dataDir)}`
  return text.replace(COMMAND, (command: string, name: string) =>
    WITHOUT.has(name) || / --(?:data-dir|help)\b/.test(command) ? command : command + option,
  )
}

/** The value of the option in the words of a command line, for what is printed outside of a command. */
export function dataDirIn(words: readonly string[]): string | undefined {
  if (WITHOUT.has(words[0] ?? '')) return undefined
  const at = words.indexOf('--data-dir')
  if (at !== -1) return words[at + 1]
  return words.find((word) => word.startsWith('--data-dir='))?.slice('--data-dir='.length)
}
