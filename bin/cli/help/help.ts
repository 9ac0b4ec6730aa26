/** `switchyard help`: the help of a command, as `COMMAND --help` prints it, or a topic. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { nearestWord } from '../../../protocol/nearest-word.ts'
import { wrapWords } from '../../output/text-width.ts'
import { type ExitError, usageError } from '../../process/exit.ts'

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
    if (verb === undefined) throw noHelp(command, word, words)
    command = verb
  }
  return command
}

function noHelp(command: CommandUnknownOpts, word: string, words: readonly string[]): ExitError {
  const sentence = `no command or topic is called ${words.join(' ')}`
  const names = command.commands.map((each) => each.name())
  const near = nearestWord(word, command.parent === null ? [...names, ...Object.keys(TOPICS)] : names)
  if (near === undefined) return usageError(sentence, 'switchyard --help')
  const meant = words.map((each) => (each === word ? near : each)).join(' ')
  return usageError(`${sentence}; did you mean ${meant}?`, `switchyard help ${meant}`)
}

function list(entries: readonly Entry[]): string[] {
  const columns = Math.max(...entries.map(([name]) => name.length)) + TERM_GAP
  return entries.flatMap(([name, meaning]) =>
    wrapWords(meaning, COLUMNS_MAX - columns - TERM_GAP).map(
      (line, at) => `  ${(at === 0 ? name : '').padEnd(columns)}${line}`,
    ),
  )
}

// ---- the words of topics -------------------------------------------------------------------------------------------

/** A term, and what it means. */
export type Entry = readonly [term: string, meaning: string]

export const EXIT_CODES: readonly Entry[] = [
  ['0', 'done; runs that were waited for have completed'],
  ['1', 'the host refused, a run did not complete, a check failed, or the time to wait was over'],
  ['2', 'wrong use: an unknown option, an ambiguous name, a missing --yes, a question without a terminal'],
  ['69', 'no host is reachable, or another user has its port'],
  ['130', 'Ctrl-C ended the watching or a question; 143 after SIGTERM'],
]

export const EXIT_CODES_OF_PROGRAMS: readonly Entry[] = [
  ['65', 'the data is of a newer version'],
  ['69', 'a port is in use, or this machine has no sandbox'],
  ['70', 'a bug, or a failure of the disk'],
  ['75', 'another process uses this data directory or this credential'],
  ['76', 'host and worker do not understand the version of each other'],
  ['77', 'the host does not accept this worker'],
  ['78', 'the configuration is not valid'],
]

export const ENVIRONMENT: readonly Entry[] = [
  ['SWITCHYARD_DATA_DIR', 'the data directory, whose host is asked; --data-dir wins'],
  ['SWITCHYARD_URL', 'the address of another host; needs its token'],
  ['SWITCHYARD_TOKEN_FILE', 'the file with the token of the host in SWITCHYARD_URL'],
  ['SWITCHYARD_HOST_USER', 'whose program that host is on this machine, beside yours and root’s'],
  ['SWITCHYARD_TOKEN', 'the token itself, which other programs of yours can read'],
  ['SWITCHYARD_SANDBOX_DIR', 'where a worker keeps sandboxes and copies of repositories'],
  ['SWITCHYARD_LISTENER', 'node: the ports are served without the native listener'],
  ['SWITCHYARD_DEBUG', 'with any value: a bug shows where it failed, as with --debug'],
  ['NO_COLOR', 'with any value: no colours; --color wins'],
  ['FORCE_COLOR', 'colours also without a terminal; NO_COLOR wins'],
  ['LC_ALL, LC_CTYPE, LANG', 'signs are ASCII unless the first that is set names UTF-8'],
  ['TERM', 'dumb: neither colours nor lines that are drawn again'],
  ['VISUAL, EDITOR', 'the editor of config edit'],
  ['XDG_DATA_HOME', 'the data directory is below it by default'],
]

export const JSON_OUTPUT: readonly string[] = [
  '--json, short for -o json, prints the records of the API as they are: indented on a terminal, one line elsewhere.',
  'Commands that go on (logs -f, status --watch, start --watch, runs wait) print one JSON value for each line.',
  'Instants are UTC. Fields that are not known are missing.',
  'An error leaves standard output empty. Standard error then holds one line, {"error":"...","cure":"..."}.',
  'New fields may be added at any time; a program ignores those that it does not know.',
]

export const ENVIRONMENT_OF_HELPER: readonly Entry[] = [
  ['CODEHOST_CLIENT_ID', 'the client id at the code host'],
  ['TRACKER_CLIENT_ID', 'the client id at the tracker'],
  [
    'TRACKER_CLIENT_SECRET',
    'the secret at the tracker; a file may hold each of the three, named by NAME_FILE',
  ],
  ['SWITCHYARD_TRACKER_URL', 'another address of the tracker'],
  ['SWITCHYARD_CODEHOST_URL', 'another address of the code host'],
]
