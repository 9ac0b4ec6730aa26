/**
 * Completes the commands that a text names, so that a person can copy them: `switchyard` becomes the words by which
 * this program was started, agents have their names for people, and the `--data-dir` of the command line is added.
 * Without it, following them acts on the data directory of the environment.
 *
 * A command stands at the beginning of a text, or behind a colon, a comma or a word that joins, and ends with the
 * sentence or before a redirection. Commands of another data directory, and those that name one, keep their words.
 */
import { withAgentNames } from '../../client/agent-names.ts'
import { quoteWord } from '../../protocol/quote-word.ts'

const WORD = String.raw`(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+?(?=[,;.:)]*(?:\s|$))`
const COMMAND = new RegExp(
  String.raw`(?<=^|[:,;.] |\b(?:and|or|then) |-- |=\S* )switchyard ([a-z][a-z-]*|--help)(?=[\s,;.:)]|$)(?: (?![<>|&])${WORD})*`,
  'g',
)
/** Programs with a data directory of their own, and words without one. */
const WITHOUT = new Set(['completion', 'help', 'oauth-helper', 'quickstart', 'supervise', 'worker'])
/** The words that a text has for this program. */
const NAME = 'switchyard'

export interface TypedCommand {
  /** The words by which this program was started; its name by default. */
  readonly program?: string | undefined
  /** The value of the option as it was given; undefined where nobody gave it. */
  readonly dataDir?: string | undefined
}

export function completeCommands(text: string, { program = NAME, dataDir = '' }: TypedCommand): string {
  const option = dataDir === '' ? '' : ` --data-dir ${quoteWord(dataDir)}`
  return text.replace(COMMAND, (command: string, name: string) => {
    const isWhole = WITHOUT.has(name) || / --(?:data-dir|help)\b/.test(command)
    return program + withAgentNames(command.slice(NAME.length)) + (isWhole ? '' : option)
  })
}

/** The value of the option in the words of a command line, for what is printed outside of a command. */
export function dataDirIn(words: readonly string[]): string | undefined {
  if (WITHOUT.has(words[0] ?? '')) return undefined
  const at = words.indexOf('--data-dir')
  if (at !== -1) return words[at + 1]
  return words.find((word) => word.startsWith('--data-dir='))?.slice('--data-dir='.length)
}
