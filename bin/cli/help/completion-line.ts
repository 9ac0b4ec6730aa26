/**
 * Reads a command line that is not finished, and says what may stand at its end: words of the tree, ids of a kind, or
 * files.
 */
import type { Argument, CommandUnknownOpts, Option } from '@commander-js/extra-typings'

/** The kinds of ids that only the host knows. */
export type IdKind = 'run' | 'ticket' | 'worker' | 'repo' | 'pull' | 'setting' | 'memory'

export interface Candidate {
  readonly value: string
  readonly about: string
}

export interface Completion {
  /** The beginning that every candidate must have. */
  readonly beginning: string
  readonly words: readonly Candidate[]
  readonly ids: readonly IdKind[]
  /** The arguments before, which say of which repository a pull request is. */
  readonly args: readonly string[]
  readonly areFilesWanted: boolean
  /** The value of `--data-dir` in the line. */
  readonly dataDir: string | undefined
  /** The value of `--host-user` in the line. */
  readonly hostUser: string | undefined
}

/** `switchyard help` explains these besides commands. */
const TOPICS = ['exit', 'environment', 'json']

/** The ids that an argument of this name takes. */
const IDS_OF_ARGUMENT: Readonly<Record<string, readonly IdKind[]>> = {
  run: ['run'],
  ticket: ['ticket'],
  'ticket-or-run': ['ticket', 'run'],
  'ticket-or-words': ['ticket'],
  worker: ['worker'],
  pull: ['pull'],
  key: ['setting'],
  id: ['memory'],
}
const IDS_OF_OPTION: Readonly<Record<string, readonly IdKind[]>> = {
  '--repo': ['repo'],
  '--ticket': ['ticket', 'run'],
}
const TAKES_PATH = /<(?:path|file|folder)>$/

/** @param typed the words behind the name of the program; the last one is being typed, and may be empty */
export function readLine(root: CommandUnknownOpts, typed: readonly string[]): Completion {
  const beginning = typed.at(-1) ?? ''
  const walk = new Walk(root)
  for (const word of typed.slice(0, -1)) walk.pass(word)
  const { command, args, pending, dataDir, hostUser } = walk
  const basis = { beginning, words: [], ids: [], args, areFilesWanted: false, dataDir, hostUser }
  if (pending !== undefined) return { ...basis, ...valuesOf(pending) }
  if (walk.areOptionsOver || !beginning.startsWith('-')) {
    const argument = argumentAt(command, args.length)
    const verbs = args.length === 0 && !walk.areOptionsOver ? verbsOf(command) : []
    return {
      ...basis,
      words: [...verbs, ...choicesOf(argument), ...wordsOf(argument, root, args)],
      ids: IDS_OF_ARGUMENT[argument?.name() ?? ''] ?? [],
    }
  }
  const [name = '', value] = splitOption(beginning)
  const option = value === undefined ? undefined : findOption(command, name)
  if (value === undefined) return { ...basis, words: optionsOf(command) }
  return option === undefined
    ? { ...basis, beginning: value }
    : { ...basis, beginning: value, ...valuesOf(option) }
}

/** Follows the words from the root of the tree to the command that they name. */
class Walk {
  command: CommandUnknownOpts
  args: string[] = []
  /** The option whose value comes next. */
  pending: Option | undefined
  areOptionsOver = false
  dataDir: string | undefined
  hostUser: string | undefined

  constructor(root: CommandUnknownOpts) {
    this.command = root
  }

  pass(word: string): void {
    if (this.pending !== undefined) this.#setOption(this.pending, word)
    else if (this.areOptionsOver) this.args.push(word)
    else if (word === '--') this.areOptionsOver = true
    else if (word.startsWith('-') && word.length > 1) this.#passOption(word)
    else this.#passWord(word)
  }

  #passOption(word: string): void {
    const [name, value] = splitOption(word)
    const option = findOption(this.command, name)
    if (option === undefined) return
    if (value !== undefined) this.#setOption(option, value)
    else if (option.required) this.pending = option
  }

  #setOption(option: Option, value: string): void {
    this.pending = undefined
    if (option.long === '--data-dir') this.dataDir = value
    if (option.long === '--host-user') this.hostUser = value
  }

  #passWord(word: string): void {
    const verb = this.args.length === 0 ? findCommand(this.command, word) : undefined
    if (verb === undefined) this.args.push(word)
    else this.command = verb
  }
}

/** `--name=value` as its two parts. */
function splitOption(word: string): [name: string, value: string | undefined] {
  const at = word.indexOf('=')
  return at === -1 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)]
}

const findOption = ({ options }: CommandUnknownOpts, name: string): Option | undefined =>
  options.find(({ long, short }) => long === name || short === name)

const findCommand = ({ commands }: CommandUnknownOpts, name: string): CommandUnknownOpts | undefined =>
  commands.find((command) => command.name() === name)

/** The last argument takes all further words when it may be repeated. */
function argumentAt({ registeredArguments }: CommandUnknownOpts, at: number): Argument | undefined {
  const last = registeredArguments.at(-1)
  return registeredArguments[at] ?? (last?.variadic === true ? last : undefined)
}

const verbsOf = (command: CommandUnknownOpts): Candidate[] =>
  command
    .createHelp()
    .visibleCommands(command)
    .map((verb) => ({ value: verb.name(), about: verb.description() }))

/** `help` takes the words of the whole tree. */
function wordsOf(
  argument: Argument | undefined,
  root: CommandUnknownOpts,
  args: readonly string[],
): Candidate[] {
  if (argument?.name() !== 'command-or-topic') return []
  let command: CommandUnknownOpts | undefined = root
  for (const word of args) command = command === undefined ? undefined : findCommand(command, word)
  const topics = args.length === 0 ? TOPICS.map((value) => ({ value, about: 'topic' })) : []
  return command === undefined ? [] : [...topics, ...verbsOf(command)]
}

const choicesOf = (argument: Argument | undefined): Candidate[] =>
  (argument?.argChoices ?? []).map((value) => ({ value, about: '' }))

const optionsOf = (command: CommandUnknownOpts): Candidate[] =>
  command
    .createHelp()
    .visibleOptions(command)
    .flatMap(({ long, short, description }) =>
      [long, short].flatMap((value) => (value === undefined ? [] : [{ value, about: description }])),
    )

const valuesOf = (option: Option): Pick<Completion, 'words' | 'ids' | 'areFilesWanted'> => ({
  words: (option.argChoices ?? []).map((value) => ({ value, about: '' })),
  ids: IDS_OF_OPTION[option.long ?? ''] ?? [],
  areFilesWanted: TAKES_PATH.test(option.flags),
})
