/**
 * Every command that a text of the product names exists, and its words and options parse with the tree of commands.
 *
 * A text is a literal in the sources; what is put into it stands for one word.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { expect, test } from '@jest/globals'
import { parseSync } from '@swc/core'
import { createProgram } from '../../../bin/cli/program.ts'

const root = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))))
const FOLDERS = [
  'actors',
  'bin',
  'client',
  'core',
  'oauth-helper',
  'protocol',
  'providers',
  'store',
  'transport',
  'worker',
]
/** Stands for what is put into a text. */
const GAP = '\u{fffc}'
/** The words after which the name of the program is the subject of a sentence. */
const SENTENCE_WORDS = new Set(
  'block connects creates does edits has host is knows may opens read serves set speaks the to took when write wrote'.split(
    ' ',
  ),
)

/** The texts of a source file, with a gap for each expression in them. */
function textsOf(code: string): string[] {
  const texts: string[] = []
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) for (const each of node) visit(each)
    else if (typeof node === 'object' && node !== null) {
      const { type, value, quasis } = node as {
        type?: unknown
        value?: unknown
        quasis?: { cooked?: string }[]
      }
      if (type === 'StringLiteral' && typeof value === 'string') texts.push(value)
      if (type === 'TemplateLiteral' && Array.isArray(quasis))
        texts.push(quasis.map(({ cooked = '' }) => cooked).join(GAP))
      for (const each of Object.values(node)) visit(each)
    }
  }
  visit(parseSync(code, { syntax: 'typescript', target: 'es2022' }))
  return texts
}

/** The command lines that a text names, without the name of the program. */
function commandsIn(text: string): string[] {
  const found = text.matchAll(/\bswitchyard ([a-z][a-z-]*(?=[\s,.;:`')]|$)[^\n`;]*)/g)
  return [...found]
    .map(([, line = '']) => line)
    .flatMap((line) => line.split(/, (?:or )?(?:for a new one )?(?:then )?switchyard /))
    .map(
      (line) =>
        line.split(/,(?: |$)|\. |\.$|:(?: |$)| \(| < | \| | && | and | in | on the /)[0]?.trim() ?? '',
    )
    .filter((line) => {
      const [first = '', second = ''] = line.split(' ')
      return !SENTENCE_WORDS.has(first) && !SENTENCE_WORDS.has(second)
    })
}

const wordsOf = (line: string): string[] => line.match(/"[^"]*"|'[^']*'|\S+/g) ?? []

/** Undefined for a command line that parses. */
function problemOf(command: CommandUnknownOpts, words: readonly string[]): string | undefined {
  const [first, ...rest] = words
  const verb = command.commands.find((each) => each.name() === first)
  if (verb !== undefined) return problemOf(verb, rest)
  // A gap in the place of a verb may be any verb.
  const isAnyVerb = first?.includes(GAP) === true && command.commands.length > 0
  if (isAnyVerb && command.commands.some((each) => problemOf(each, rest) === undefined)) return undefined
  const parsed = parse(command, words)
  if (parsed instanceof Error) return parsed.message.includes(GAP) ? undefined : parsed.message
  const { operands, unknown } = parsed
  const least = command.registeredArguments.filter(({ required }) => required).length
  const isVariadic = command.registeredArguments.some(({ variadic }) => variadic)
  if (unknown.length > 0) return `has no ${unknown[0]}`
  if (operands.length < least) return `lacks an argument of ${command.name()}`
  // A gap may also be an option, or empty.
  const sure = operands.filter((word) => word !== GAP)
  if (!isVariadic && sure.length > command.registeredArguments.length)
    return `has an argument too many: ${sure.join(' ')}`
  return undefined
}

function parse(command: CommandUnknownOpts, words: readonly string[]) {
  command.configureOutput({ outputError: () => {} })
  try {
    return command.parseOptions([...words])
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

function problemsIn(text: string): string[] {
  return commandsIn(text).flatMap((line) => {
    const problem = problemOf(createProgram(), wordsOf(line))
    return problem === undefined ? [] : [`switchyard ${line.replaceAll(GAP, '…')}: ${problem}`]
  })
}

const sources = FOLDERS.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name)),
)

test('every command that the product names exists and parses', () => {
  const problems = sources.flatMap((path) => {
    const code = readFileSync(path, 'utf8')
    if (!code.includes('switchyard ')) return []
    return textsOf(code)
      .flatMap(problemsIn)
      .map((problem) => `${relative(root, path)}: ${problem}`)
  })
  expect(problems).toEqual([])
})

test.each([
  ['switchyard dance', 1],
  ['Next: switchyard logs ENG-1 -f', 0],
  ['switchyard logs', 1],
  ['switchyard runs show ENG-1 --sideways', 1],
  ['No runs. Next: switchyard tickets, or switchyard start "TWO WORDS"', 0],
  ['No runs. Next: switchyard tickets, or switchyard begin', 1],
  [`switchyard workers ${GAP} forge`, 0],
  ['switchyard is serving', 0],
])('%s has %i problems', (text, count) => {
  expect(problemsIn(text)).toHaveLength(count)
})
