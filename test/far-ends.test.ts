/**
 * Every setting and every option of the commands has a test that fails when it is ignored: `far-ends.json` names it.
 *
 * A new one without a test is listed here by name; so is an entry whose test is gone.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { expect, test } from '@jest/globals'
import { clientCommand } from '../bin/cli/command/client-options.ts'
import { createProgram } from '../bin/cli/program.ts'
import { ServiceConfig } from '../protocol/config.ts'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

interface FarEnds {
  readonly settings: Readonly<Record<string, string>>
  readonly options: Readonly<Record<string, string>>
  readonly 'nothing obeys it yet': Readonly<Record<string, string>>
}
const farEnds = JSON.parse(read('test/far-ends.json')) as FarEnds

interface Shape {
  readonly type?: string
  readonly properties?: Readonly<Record<string, Shape>>
  readonly patternProperties?: Readonly<Record<string, Shape>>
}

function leaves(shape: Shape, path: readonly string[] = []): string[] {
  if (shape.type !== 'object') return [path.join('.')]
  const { properties = {}, patternProperties = {} } = shape
  return [
    ...Object.entries(properties).flatMap(([key, inner]) => leaves(inner, [...path, key])),
    ...Object.values(patternProperties).flatMap((inner) => leaves(inner, [...path, '*'])),
  ]
}

/** The options that all client commands share, listed once. */
const SHARED = new Set(clientCommand('any', '').options.map(({ long }) => long))
const COMMANDER = ['--help', '--version']

type AnyCommand = CommandUnknownOpts

/** Every option of the tree of commands, hidden ones included: `runs list --status`. */
function optionsOf(command: AnyCommand, path: readonly string[]): string[] {
  const own = command.options
    .map(({ long }) => long ?? '')
    .filter((long) => !COMMANDER.includes(long) && !(path.length > 0 && isShared(command, long)))
    .map((long) => [...path, long].join(' '))
  return [...own, ...command.commands.flatMap((inner) => optionsOf(inner, [...path, inner.name()]))]
}

/** A program has options of its own that are called like those of client commands. */
const isShared = ({ options }: AnyCommand, long: string): boolean =>
  SHARED.has(long) && [...SHARED].every((name) => options.some((option) => option.long === name))

const optionNames = [...[...SHARED].map((long) => `clients ${long}`), ...optionsOf(createProgram(), [])]

const problemOf = (place: string | undefined): string | undefined => {
  const [, path = '', title = ''] = /^(\S+): (.+)$/.exec(place ?? '') ?? []
  if (title === '') return 'has no test at its far end'
  if (!existsSync(join(root, path))) return `names ${path}, which does not exist`
  return read(path).includes(title) ? undefined : `names a test that ${path} does not have: ${title}`
}

test.each<[string, readonly string[], Readonly<Record<string, string>>]>([
  ['setting', leaves(ServiceConfig as Shape), farEnds.settings],
  ['option', optionNames, farEnds.options],
])('every %s has a test at its far end', (_, names, tests) => {
  const expected = names.filter((name) => farEnds['nothing obeys it yet'][name] === undefined)
  const unknown = Object.keys(tests).filter((name) => !names.includes(name))
  const problems = expected.flatMap((name) => {
    const problem = problemOf(tests[name])
    return problem === undefined ? [] : [`${name} ${problem}`]
  })
  expect([...problems, ...unknown.map((name) => `${name} is no longer there`)]).toEqual([])
})
