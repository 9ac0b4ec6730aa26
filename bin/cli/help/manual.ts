/**
 * Writes the manual pages from the tree of commands: `switchyard(1)`, and one page for each command at its top.
 *
 * The pages are in the macros of man(7), which groff and mandoc read.
 */
import type { CommandUnknownOpts, Option } from '@commander-js/extra-typings'
import {
  ENVIRONMENT,
  ENVIRONMENT_OF_HELPER,
  type Entry,
  EXIT_CODES,
  EXIT_CODES_OF_PROGRAMS,
  JSON_OUTPUT,
} from './help.ts'

export interface ManualFacts {
  readonly version: string
  /** Like `2026-11-22`. */
  readonly date: string
}

const OF_PROGRAMS = 'The programs also end with:'
/** These have exit codes of their own. */
const PROGRAMS: ReadonlySet<string> = new Set(['serve', 'worker', 'supervise', 'quickstart', 'oauth-helper'])

/** @returns the text of each page by the name of its file */
export function writeManual(tree: CommandUnknownOpts, facts: ManualFacts): ReadonlyMap<string, string> {
  const commands = visibleCommands(tree)
  const names = commands.map((command) => command.name())
  const pages = commands.map((command): [string, string] => [
    `switchyard-${command.name()}.1`,
    commandPage(command, names, facts),
  ])
  return new Map([['switchyard.1', rootPage(tree, commands, facts)], ...pages])
}

const visibleCommands = (command: CommandUnknownOpts): readonly CommandUnknownOpts[] =>
  command.createHelp().visibleCommands(command)

// ---- pages ---------------------------------------------------------------------------------------------------------

function rootPage(
  tree: CommandUnknownOpts,
  commands: readonly CommandUnknownOpts[],
  facts: ManualFacts,
): string {
  // Every client command has the same ones.
  const shared = commands.find((command) => command.name() === 'version')?.options ?? []
  return page([
    title('switchyard', facts),
    section('NAME', [plain('switchyard - turn tickets into pull requests with coding agents')]),
    section('SYNOPSIS', [
      `${bold('switchyard')} ${italic('command')} [${italic('arguments')}] [${italic('options')}]`,
    ]),
    section('DESCRIPTION', [
      plain('Turns tickets into pull requests with coding agents on machines of your own.'),
      plain('Every command but the programs is a client of a running host.'),
      plain('Without a command it shows the status on a terminal.'),
    ]),
    section('COMMANDS', terms(commands.map((command) => [command.name(), sentence(command.description())]))),
    section('OPTIONS', optionTerms([...tree.createHelp().visibleOptions(tree), ...shared])),
    section('EXIT STATUS', [...terms(EXIT_CODES), '.PP', OF_PROGRAMS, ...terms(EXIT_CODES_OF_PROGRAMS)]),
    section('ENVIRONMENT', terms(ENVIRONMENT)),
    section('JSON', JSON_OUTPUT.map(plain)),
    examples('switchyard'),
    section('SEE ALSO', seeAlso(commands.map((command) => command.name()))),
  ])
}

function commandPage(command: CommandUnknownOpts, names: readonly string[], facts: ManualFacts): string {
  const name = command.name()
  const verbs = visibleCommands(command).filter((verb) => verb.name() !== 'help')
  const codes = PROGRAMS.has(name) ? [...EXIT_CODES.slice(0, 3), ...EXIT_CODES_OF_PROGRAMS] : EXIT_CODES
  return page([
    title(`switchyard-${name}`, facts),
    section('NAME', [plain(`switchyard-${name} - ${lowerFirst(command.description())}`)]),
    section('SYNOPSIS', synopsis([command, ...verbs])),
    section('DESCRIPTION', [plain(sentence(command.description())), ...argumentTerms(command)]),
    ...(verbs.length === 0
      ? []
      : [
          section(
            'VERBS',
            verbs.flatMap((verb) => verbPart(verb, command)),
          ),
        ]),
    section('OPTIONS', optionTerms(command.createHelp().visibleOptions(command))),
    section('EXIT STATUS', terms(codes)),
    section('ENVIRONMENT', terms(name === 'oauth-helper' ? ENVIRONMENT_OF_HELPER : ENVIRONMENT)),
    examples(name),
    section('SEE ALSO', seeAlso(['', ...names.filter((each) => each !== name)])),
  ])
}

/** A verb with the options that its noun does not have. */
function verbPart(verb: CommandUnknownOpts, noun: CommandUnknownOpts): string[] {
  const ofNoun = new Set(noun.options.map(({ long }) => long))
  const own = verb.options.filter((option) => !ofNoun.has(option.long) && !option.hidden)
  return [
    `.SS ${quote(verb.name())}`,
    plain(sentence(verb.description())),
    ...argumentTerms(verb),
    ...optionTerms(own),
  ]
}

function synopsis(commands: readonly CommandUnknownOpts[]): string[] {
  return commands.map((command, at) => {
    const words = [command.name()]
    for (let up = command.parent; up !== null; up = up.parent) words.unshift(up.name())
    const args = command.registeredArguments.map((argument) => {
      const shown = `${italic(argument.name())}${argument.variadic ? plain(' ...') : ''}`
      return argument.required ? shown : `[${shown}]`
    })
    const line = [bold(words.join(' ')), ...args, `[${italic('options')}]`].join(' ')
    return at === 0 ? line : `.br\n${line}`
  })
}

function argumentTerms({ registeredArguments }: CommandUnknownOpts): string[] {
  return registeredArguments.flatMap((argument) => {
    const choices = choicesText(argument.argChoices)
    const about = [argument.description, choices].filter((part) => part !== '').join('; ')
    return about === '' ? [] : term(italic(argument.name()), about)
  })
}

function optionTerms(options: readonly Option[]): string[] {
  return options.flatMap((option) => {
    const [flags = '', value] = splitFlags(option.flags)
    const head = value === undefined ? bold(flags) : `${bold(flags)} ${italic(value)}`
    const isDefaultShown =
      option.defaultValue !== undefined && option.required && !option.description.includes('(default: ')
    const byDefault = option.defaultValueDescription ?? String(option.defaultValue)
    const parts = [
      option.description,
      choicesText(option.argChoices),
      isDefaultShown ? `${byDefault} by default` : '',
    ]
    return term(head, parts.filter((part) => part !== '').join('; '))
  })
}

/** `-o, --output <format>` as its names and its value. */
function splitFlags(flags: string): [string, string | undefined] {
  const [, names = flags, value] = /^(.*?)(?: [<[](.+)[>\]])?$/.exec(flags) ?? []
  return [names, value]
}

const choicesText = (choices: readonly string[] | undefined): string =>
  choices === undefined ? '' : `one of ${choices.join(', ')}`

// ---- macros --------------------------------------------------------------------------------------------------------

const page = (parts: readonly string[]): string => `${parts.filter((part) => part !== '').join('\n')}\n`

const title = (name: string, { version, date }: ManualFacts): string =>
  `.TH ${quote(name.toUpperCase())} 1 ${date} "switchyard ${version}" "switchyard"`

const section = (heading: string, lines: readonly string[]): string => [`.SH ${heading}`, ...lines].join('\n')

const terms = (entries: readonly Entry[]): string[] =>
  entries.flatMap(([name, meaning]) => term(bold(name), meaning))

const term = (head: string, meaning: string): string[] => ['.TP', head, plain(meaning)]

function examples(name: string): string {
  const lines = (EXAMPLES[name] ?? []).flatMap(([command, meaning]) => [
    '.TP',
    plain(command),
    plain(sentence(meaning)),
  ])
  return lines.length === 0 ? '' : section('EXAMPLES', lines)
}

const seeAlso = (names: readonly string[]): string[] => [
  names
    .map((name) => `${bold(name === '' ? 'switchyard' : `switchyard-${name}`)}(1)`)
    .sort()
    .join(',\n'),
]

const bold = (text: string): string => `\\fB${quote(text)}\\fR`
const italic = (text: string): string => `\\fI${quote(text)}\\fR`

/** A line of text; a point or an apostrophe at its beginning would be a macro. */
const plain = (text: string): string => quote(text).replace(/^(?=[.'])/, '\\&')

/** Hyphens are for copying; what is not ASCII is named by its number. */
const quote = (text: string): string =>
  text
    .replace(/\\/g, '\\e')
    .replace(/-/g, '\\-')
    .replace(/…/g, '...')
    .replace(/[^\x20-\x7e]/gu, (sign) => `\\[u${codeOf(sign)}]`)

const codeOf = (sign: string): string =>
  (sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')

const sentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${upperFirst(text)}.`)
const upperFirst = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)
const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1)

// ---- examples ------------------------------------------------------------------------------------------------------

/** Examples for the manual pages, by command. */
export const EXAMPLES: Readonly<Record<string, readonly Entry[]>> = {
  switchyard: [
    ['switchyard quickstart', 'turn three example tickets into three pull requests'],
    ['switchyard status --watch', 'watch what runs'],
    ['switchyard start ENG-12 --watch', 'start a ticket, and wait until its run has ended'],
  ],
  start: [
    ['switchyard start "Greet in Spanish" --repo api', 'make a ticket from words, and queue it'],
    ['switchyard start ENG-12 --instructions - < notes.txt', 'give the agent words from a file'],
  ],
  logs: [
    ['switchyard logs ENG-12 -f', 'follow the log until the run has ended'],
    ['switchyard logs ENG-12 --since 30m --stream stderr', 'what went wrong in the last half hour'],
  ],
  top: [['switchyard top --data-dir ~/other', 'watch the runs of another host on a board']],
  runs: [
    ['switchyard runs list --status failed', 'runs that failed'],
    ['switchyard runs wait ENG-12 --timeout 2h', 'block until it ends, for two hours at most'],
  ],
  tickets: [['switchyard tickets create "Greet in Spanish" --repo api', 'make a ticket']],
  workers: [['switchyard workers drain mica --wait', 'block until it has no run left']],
  pulls: [['switchyard pulls merge api 91 --method squash', 'merge a pull request']],
  costs: [['switchyard costs --by repo --since 7d', 'what each repository has cost in a week']],
  config: [['switchyard config set sandbox.concurrency 4', 'execute four runs at once']],
  api: [['switchyard api GET "/api/runs?limit=3"', 'read the three newest runs']],
  completion: [['source <(switchyard completion bash)', 'complete words in this shell']],
  serve: [['switchyard serve --port 4400', 'run the host']],
}
