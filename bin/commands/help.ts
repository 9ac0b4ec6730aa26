/** `switchyard help`: the help of a command, as `COMMAND --help` prints it, or a topic. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { EXIT, ExitError } from '../exit.ts'
import { ENVIRONMENT, type Entry, EXIT_CODES, EXIT_CODES_OF_PROGRAMS, JSON_OUTPUT } from '../manual/topics.ts'
import { wrapWords } from '../output/text-width.ts'

const COLUMNS_MAX = 80
const TERM_GAP = 2

/** Prints to standard output. */
export function help(tree: CommandUnknownOpts, words: readonly string[]): void {
  const [topic = '', ...more] = words
  const text = more.length === 0 ? TOPICS[topic] : undefined
  if (text !== undefined) process.stdout.write(`${text().join('\n')}\n`)
  else findCommand(tree, words).outputHelp()
}

const TOPICS: Readonly<Record<string, () => string[]>> = {
  exit: () => [
    'Exit codes of all commands:',
    ...list(EXIT_CODES),
    '',
    'Exit codes of serve and worker besides these:',
    ...list(EXIT_CODES_OF_PROGRAMS),
    '',
    'attach ends with the code of its session.',
  ],
  environment: () => ['Variables that commands read:', ...list(ENVIRONMENT)],
  json: () => JSON_OUTPUT.flatMap((line) => wrapWords(line, COLUMNS_MAX)),
}

function findCommand(tree: CommandUnknownOpts, words: readonly string[]): CommandUnknownOpts {
  let command = tree
  for (const word of words) {
    const verb = command.commands.find((each) => each.name() === word)
    if (verb === undefined)
      throw new ExitError(EXIT.usage, `no command or topic is called ${words.join(' ')}`, 'switchyard --help')
    command = verb
  }
  return command
}

function list(entries: readonly Entry[]): string[] {
  const columns = Math.max(...entries.map(([name]) => name.length)) + TERM_GAP
  return entries.flatMap(([name, meaning]) =>
    wrapWords(meaning, COLUMNS_MAX - columns - TERM_GAP).map(
      (line, at) => `  ${(at === 0 ? name : '').padEnd(columns)}${line}`,
    ),
  )
}
