/**
 * Every setting and every option of the commands has a test that fails when it is ignored: `far-ends.json` names it.
 *
 * A new one without a test is listed here by name; so is an entry whose test is gone.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
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

/** The sources that declare commands. */
const commandSources = readdirSync(join(root, 'bin'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => read(join('bin', name)))
  .filter((source) => source.includes(".command('"))

/** Options as the source declares them, because hidden ones are not in the help. */
function optionsIn(source: string): string[] {
  const shared: Readonly<Record<string, string>> = {
    'logLevel()': '--log-level',
    'logFormat()': '--log-format',
    'localRepos(': '--local-repos',
    'privateCodeHost(': '--private-code-host',
  }
  return source
    .split(/\.command\('/)
    .slice(1)
    .flatMap((part) => {
      const command = part.slice(0, part.indexOf("'"))
      const own = [...part.matchAll(/(?:\.option\(|new Option\(|port\()\s*'(--[a-z-]+)/g)].map(
        ([, name = '']) => name,
      )
      const common = Object.entries(shared).flatMap(([call, name]) =>
        part.includes(`.addOption(${call}`) ? [name] : [],
      )
      return [...own, ...common].map((name) => `${command} ${name}`)
    })
}

const problemOf = (place: string | undefined): string | undefined => {
  const [, path = '', title = ''] = /^(\S+): (.+)$/.exec(place ?? '') ?? []
  if (title === '') return 'has no test at its far end'
  if (!existsSync(join(root, path))) return `names ${path}, which does not exist`
  return read(path).includes(title) ? undefined : `names a test that ${path} does not have: ${title}`
}

test.each<[string, readonly string[], Readonly<Record<string, string>>]>([
  ['setting', leaves(ServiceConfig as Shape), farEnds.settings],
  ['option', commandSources.flatMap(optionsIn), farEnds.options],
])('every %s has a test at its far end', (_, names, tests) => {
  const expected = names.filter((name) => farEnds['nothing obeys it yet'][name] === undefined)
  const unknown = Object.keys(tests).filter((name) => !names.includes(name))
  const problems = expected.flatMap((name) => {
    const problem = problemOf(tests[name])
    return problem === undefined ? [] : [`${name} ${problem}`]
  })
  expect([...problems, ...unknown.map((name) => `${name} is no longer there`)]).toEqual([])
})

test('no option is declared in a way that the list above does not see', () => {
  for (const source of commandSources) {
    const seen = new Set(optionsIn(source).map((name) => name.split(' ')[1]))
    const written = [...source.matchAll(/'(--[a-z-]+)/g)].map(([, name = '']) => name)
    expect(written.filter((name) => !seen.has(name))).toEqual([])
  }
})
