/**
 * Wrong usage as an error with a sentence and its cure, like every other error of a command: commander alone prints a
 * text of its own, also for a program that asked for JSON. Its help and its version are no errors and pass.
 */
import type { CommanderError, CommandUnknownOpts } from '@commander-js/extra-typings'
import { nearestWord } from '../../../protocol/nearest-word.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import { ExitError, isExitError, usageError } from '../../process/exit.ts'

const NO_ERRORS = new Set(['commander.help', 'commander.helpDisplayed', 'commander.version'])
/** The message names the values that are allowed. */
const NAMES_CURE = new Set(['commander.invalidArgument'])

/**
 * Applies to every command below, because commander passes no setting on to added commands.
 *
 * @param words the command line, for cures that repeat it
 */
export function throwUsageErrors(command: CommandUnknownOpts, words: readonly string[]): void {
  command.configureOutput({ outputError: () => {} })
  command.exitOverride((error) => {
    throw NO_ERRORS.has(error.code) ? error : describeUsage(error, command, words)
  })
  command.hook('preSubcommand', (_, verb) => refuseOptionsBefore(verb, command, words))
  for (const verb of command.commands) throwUsageErrors(verb, words)
}

/** Options of a noun do not reach its verb: without the refusal, `runs --data-dir D list` asks another host. */
function refuseOptionsBefore(
  verb: CommandUnknownOpts,
  command: CommandUnknownOpts,
  words: readonly string[],
): void {
  const given = command.options.find(
    (option) => command.getOptionValueSource(option.attributeName()) === 'cli',
  )
  if (given !== undefined) throw behindVerb(given.long ?? given.flags, verb, command, words)
}

function describeUsage(
  { code, message }: CommanderError,
  command: CommandUnknownOpts,
  words: readonly string[],
): ExitError {
  const unknownVerb = /\.(?:excessArguments|unknownCommand)$/.test(code)
    ? describeUnknownVerb(command, words)
    : undefined
  if (unknownVerb !== undefined) return unknownVerb
  const misplaced =
    code === 'commander.unknownOption' ? describeMisplaced(message, command, words) : undefined
  if (misplaced !== undefined) return misplaced
  const wrongWord = describeWrongWord(message, command, words)
  if (wrongWord !== undefined) return wrongWord
  const sentence = message.replace(/^error: /, '').replace(/\n\(Did you mean (.*)\?\)$/, '; did you mean $1?')
  return usageError(sentence, NAMES_CURE.has(code) ? undefined : helpOf(command))
}

/** Undefined for a command without verbs, and for a name too many behind one that takes names itself. */
function describeUnknownVerb(command: CommandUnknownOpts, words: readonly string[]): ExitError | undefined {
  const [verb = ''] = command.args
  const ofNoun = command.parent === null ? describeVerbOfNoun(command, verb, words) : undefined
  if (ofNoun !== undefined) return ofNoun
  const verbs = command.commands.map((each) => each.name())
  const near = verbNear(verb, verbs)
  const takesNames = command.registeredArguments.length > 0
  if (verbs.length === 0 || (takesNames && near === undefined)) return undefined
  const sentence =
    command.parent === null ? `there is no command ${verb}` : `${command.name()} has no command ${verb}`
  if (near === undefined) return usageError(sentence, helpOf(command))
  return usageError(
    `${sentence}; did you mean ${near}?`,
    lineWithVerb(command, near, words, words.indexOf(verb)),
  )
}

/** `merge ENG-1` is a verb of a noun, whatever command of the root it looks like. */
function describeVerbOfNoun(
  root: CommandUnknownOpts,
  verb: string,
  words: readonly string[],
): ExitError | undefined {
  const noun = root.commands.find(({ commands }) => commands.some((each) => each.name() === verb))
  if (noun === undefined) return undefined
  const at = words.indexOf(verb)
  const line = [...words.slice(0, at), noun.name(), ...words.slice(at)]
  return usageError(
    `there is no command ${verb}; did you mean ${noun.name()} ${verb}?`,
    lineWithVerb(noun, verb, line, at + 1),
  )
}

/**
 * Shows the thing that a noun names. Where there is none, the word may be a verb with a typo, which nothing but the host
 * can tell from a name.
 */
export async function orMeantVerb<T>(
  noun: CommandUnknownOpts,
  words: readonly string[],
  show: () => Promise<T>,
): Promise<T> {
  try {
    return await show()
  } catch (error) {
    const [word = ''] = words
    const near = verbNear(
      word,
      noun.commands.map((each) => each.name()),
    )
    if (!isExitError(error) || near === undefined) throw error
    const line = [...wordsToCommand(noun), ...words]
    const cure = lineWithVerb(noun, near, line, line.indexOf(word))
    throw new ExitError(error.code, `${error.message}; did you mean ${noun.name()} ${near}?`, cure)
  }
}

const verbNear = (word: string, verbs: readonly string[]): string | undefined =>
  meantBy(word, verbs) ?? nearestWord(word, verbs)

/** The line with the verb in the place of a word, and with the names of arguments that are missing: `RUN`. */
function lineWithVerb(
  command: CommandUnknownOpts,
  name: string,
  words: readonly string[],
  at: number,
): string {
  const rest = words.slice(at + 1)
  const verb = command.commands.find((each) => each.name() === name)
  const missing = verb === undefined ? [] : missingArguments(verb, rest)
  return [lineOf(command, [...words.slice(0, at), name]), ...missing, ...rest.map(quoteWord)].join(' ')
}

function missingArguments(verb: CommandUnknownOpts, rest: readonly string[]): string[] {
  const given = rest.findIndex((word) => word.startsWith('-'))
  return verb.registeredArguments
    .filter(({ required }) => required)
    .slice(given < 0 ? rest.length : given)
    .map((argument) => argument.name().split('-')[0]?.toUpperCase() ?? '')
}

/** Words of other programs, and what they are called here. */
const WORDS_OF_OTHERS: Readonly<Record<string, readonly string[]>> = {
  ls: ['list', 'runs'],
  ps: ['runs', 'list'],
  stop: ['cancel', 'pause'],
  kill: ['cancel'],
  rm: ['discard', 'delete', 'forget', 'revoke'],
  run: ['start'],
  log: ['logs'],
  login: ['connect'],
  up: ['serve'],
  web: ['dashboard'],
  cat: ['show'],
}

const meantBy = (word: string, verbs: readonly string[]): string | undefined =>
  Object.hasOwn(WORDS_OF_OTHERS, word)
    ? WORDS_OF_OTHERS[word]?.find((name) => verbs.includes(name))
    : undefined

/** Commander quotes the words that an argument may be. */
function describeWrongWord(
  message: string,
  command: CommandUnknownOpts,
  words: readonly string[],
): ExitError | undefined {
  const found =
    /^error: command-argument value '(.*)' is invalid for argument '(.*)'\. .* (?:of|are) (.*)\.$/.exec(
      message,
    )
  if (found === null) return undefined
  const [, word = '', argument = '', allowed = ''] = found
  const near = nearestWord(word, allowed.split(', '))
  const sentence = `${word} is no ${argument}`
  if (near === undefined) return usageError(`${sentence}, which is one of ${allowed}`, helpOf(command))
  const meant = words.map((each) => (each === word ? near : each))
  return usageError(`${sentence}; did you mean ${near}?`, lineOf(command, meant))
}

/** Options stand behind the command that has them. Undefined for an option that no command below has. */
function describeMisplaced(
  message: string,
  command: CommandUnknownOpts,
  words: readonly string[],
): ExitError | undefined {
  const flag = /'(--?[^'=]+)/.exec(message)?.[1] ?? ''
  const path = wordsToCommand(command)
  const rest = words.slice(path.length)
  const names = command.commands.map((each) => each.name())
  const at = rest.findIndex((word) => names.includes(word))
  const named = command.commands.find((each) => each.name() === rest[at])
  if (named !== undefined && hasOption(named, flag)) return behindVerb(flag, named, command, words)
  // A noun alone lists, with fewer options than its verb.
  const verb = command.commands.find((each) => hasOption(each, flag) && !needsArguments(each))
  if (command.parent === null || verb === undefined) return undefined
  return usageError(
    `${command.name()} has no option ${flag}, and ${command.name()} ${verb.name()} has it`,
    lineOf(command, [...path, verb.name(), ...rest]),
  )
}

function behindVerb(
  flag: string,
  verb: CommandUnknownOpts,
  command: CommandUnknownOpts,
  words: readonly string[],
): ExitError {
  const path = wordsToCommand(command)
  const at = words.indexOf(verb.name(), path.length)
  const line = [...path, verb.name(), ...words.slice(at + 1), ...words.slice(path.length, at)]
  return usageError(`the option ${flag} goes after the command`, lineOf(command, line))
}

const hasOption = (command: CommandUnknownOpts, flag: string): boolean =>
  command.options.some((option) => [option.short, option.long].includes(flag))

const needsArguments = ({ registeredArguments }: CommandUnknownOpts): boolean =>
  registeredArguments.some(({ required }) => required)

/** The words that lead from the program to the command. */
const wordsToCommand = (command: CommandUnknownOpts): string[] =>
  command.parent === null ? [] : [...wordsToCommand(command.parent), command.name()]

const helpOf = (command: CommandUnknownOpts): string => `${nameOf(command)} --help`

/** Such as `switchyard runs list`. */
function nameOf(command: CommandUnknownOpts): string {
  return command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`
}

/** A command line that may be copied. */
const lineOf = (command: CommandUnknownOpts, words: readonly string[]): string =>
  [programOf(command), ...words.map(quoteWord)].join(' ')

const programOf = (command: CommandUnknownOpts): string =>
  command.parent === null ? command.name() : programOf(command.parent)
