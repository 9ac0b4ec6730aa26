/**
 * The structure of the project: layers, the files that may load a library, nothing ambient where decisions are made,
 * and ratchets for names, sentences and sizes.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import { mutants } from './simulation/mutants.ts'
import { supervisorMutants } from './simulation/supervisor/mutants.ts'
import {
  bannedNames,
  linesByFolder,
  longFiles,
  longFunctions,
  longSubjects,
  repeatedSentences,
  repeatedTypes,
  riddleComments,
  riddleHeaders,
  satellites,
} from './support/language-rules.ts'
import { importsOf, installScripts, violations, withoutComments } from './support/structure-rules.ts'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
/** Subjects of the time before there was a limit. */
const LONG_SUBJECTS = 18
const EXCLUDED = ['node_modules', 'dist', 'coverage', '.data', '.agents', '.nodes', '.git']

function sourcesOf(folder: string): [string, string][] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter(({ name }) => !EXCLUDED.includes(name))
    .flatMap((entry): [string, string][] => {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) return sourcesOf(path)
      return /\.[mc]?tsx?$/.test(path) ? [[path, readFileSync(join(root, path), 'utf8')]] : []
    })
}

function foldersIn(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !EXCLUDED.includes(entry.name) && !entry.name.startsWith('.'))
    .map(({ name }) => join(folder, name))
}

test('the sources follow the structure rules', () => {
  expect(violations(new Map(sourcesOf('')))).toEqual([])
})

test('every top-level folder is known', () => {
  const known =
    'protocol core store providers actors transport worker oauth-helper client web inspector bin bench build examples test docs deploy .ci'
  const folders = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const unknown = folders
    .map(({ name }) => name)
    .filter((name) => ![...EXCLUDED, ...known.split(' ')].includes(name))
  expect(unknown).toEqual([])
})

test('each folder of the first two levels says what lives there, in its README or that of its parent', () => {
  const silent = foldersIn('.').flatMap((folder) => {
    const page = join(root, folder, 'README.md')
    const text = existsSync(page) ? readFileSync(page, 'utf8') : ''
    const without = foldersIn(folder).filter((path) => {
      const isNamed = text.includes(`\`${path.slice(folder.length + 1)}/`)
      return !isNamed && !existsSync(join(root, path, 'README.md'))
    })
    return [...(text === '' ? [folder] : []), ...without]
  })
  expect(silent).toEqual([])
})

test('every file that a page of the project names is there', () => {
  const folders = ['.', ...foldersIn('.').flatMap((folder) => [folder, ...foldersIn(folder)])]
  const pages = folders.flatMap((folder) =>
    readdirSync(join(root, folder))
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(folder, name)),
  )
  const missing = pages.flatMap((page) => {
    const text = readFileSync(join(root, page), 'utf8').replace(/```[\s\S]*?```/g, '')
    const linked = [...text.matchAll(/\]\((?!http)([^)#]+)\)/g)].map(([, path = '']) =>
      join(dirname(page), path),
    )
    const named = [...text.matchAll(/`([\w.][\w./-]*\/[\w.-]+\.(?:tsx?|css|md|mjs|json))`/g)].map(
      ([, path = '']) => path,
    )
    const exists = (path: string) =>
      [root, join(root, dirname(page))].some((from) => existsSync(join(from, path)))
    return [...linked, ...named].filter((path) => !exists(path)).map((path) => `${page}: ${path}`)
  })
  expect(missing).toEqual([])
})

test('every section of the page about security names its tests', () => {
  const [, ...sections] = readFileSync(join(root, 'docs', 'security.md'), 'utf8').split(/^## /m)
  expect(sections.length).toBeGreaterThan(20)
  const without = sections.filter((section) => !/`(?:test\/)?[\w/.-]+\.test\.ts`/.test(section))
  expect(without.map((section) => section.split('\n')[0])).toEqual([])
})

test('each fault of a simulation replaces a text that occurs exactly once', () => {
  const misplaced = [...mutants, ...supervisorMutants].filter(
    ({ file, find }) => readFileSync(join(root, file), 'utf8').split(find).length !== 2,
  )
  expect(misplaced.map(({ name, file }) => `${name}: ${file}`)).toEqual([])
})

test('nothing in the tree needs its install script', () => {
  expect(installScripts(JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')))).toEqual([])
  const bad = {
    packages: {
      'node_modules/a/node_modules/evil': { hasInstallScript: true },
      'node_modules/lmdb': { hasInstallScript: true },
    },
  }
  expect(installScripts(bad)).toEqual([expect.stringMatching(/^evil has an install script/)])
})

describe('ratchets: these counts may only fall', () => {
  const sources = new Map(sourcesOf(''))
  const inEachFile = (rule: (path: string, text: string) => string[]): string[] =>
    [...sources].flatMap(([path, text]) => rule(path, text))
  const allowed: Record<string, number> = JSON.parse(readFileSync(join(root, 'test/ratchets.json'), 'utf8'))

  test.each<[string, () => string[]]>([
    ['names that GLOSSARY.md replaces', () => inEachFile(bannedNames)],
    ['type names declared twice', () => repeatedTypes(sources)],
    ['product sentences repeated outside test/rules', () => repeatedSentences(sources)],
    ['functions above 70 lines', () => inEachFile(longFunctions)],
    ['files above 400 lines, tables above 700', () => inEachFile(longFiles)],
    ['files below 100 lines that one neighbour alone imports', () => satellites(sources)],
    ['headers that begin with a pronoun', () => inEachFile(riddleHeaders)],
    ['comments that begin with a pronoun', () => inEachFile(riddleComments)],
  ])('%s', (rule, find) => {
    const found = find()
    if (process.env.UPDATE_EXPECTATIONS === '1') lower(rule, found.length)
    else if (found.length !== allowed[rule])
      throw new Error(
        `${found.length} instead of ${allowed[rule]}: mend what is new; when it is fewer, run "npm run test:update -- test/tidy"\n${found.join('\n')}`,
      )
  })

  test('commit subjects above 60 characters', () => {
    const log = spawnSync('git', ['log', '--format=%s'], { cwd: root, encoding: 'utf8' })
    // A copy without its history has no subjects.
    const found = longSubjects(log.status === 0 ? log.stdout : '')
    expect(found.slice(0, Math.max(0, found.length - LONG_SUBJECTS))).toEqual([])
  })

  test('the lines of the product, printed so that a review sees growth', () => {
    const rows = [...linesByFolder(sources)].sort(([a], [b]) => a.localeCompare(b))
    expect(rows.length).toBeGreaterThan(40)
    process.stdout.write(
      `product lines: ${rows.map(([folder, lines]) => `${folder} ${lines}`).join(' · ')}\n`,
    )
  })

  function lower(rule: string, count: number): void {
    if (count > (allowed[rule] ?? Number.POSITIVE_INFINITY))
      throw new Error(`${rule}: ${count} is more than before`)
    allowed[rule] = count
    writeFileSync(join(root, 'test/ratchets.json'), `${JSON.stringify(allowed, undefined, 2)}\n`)
  }
})

describe('the rules of language', () => {
  test('find names by their parts, and say the usual word', () => {
    const text =
      "/** The yard. */\nconst yardOf = ''\nconst TOLD_MAX = 'no yard'\nconst one = { outlook: 1, told: 2 }\n"
    expect(bannedNames('core/a.ts', text)).toEqual([
      'core/a.ts: TOLD_MAX: say sent, reported',
      'core/a.ts: one: say what it is',
      'core/a.ts: yardOf: say modules, system',
    ])
  })

  test('find a type that two files of the product declare', () => {
    const sources = new Map([
      ['core/a.ts', 'export interface Lease {}\n'],
      ['store/b.ts', 'type Lease = string\n// type Run = 1\n'],
      ['test/c.ts', 'type Run = string\n'],
    ])
    expect(repeatedTypes(sources)).toEqual(['Lease is declared 2 times: core/a.ts, store/b.ts'])
  })

  test('find headers and comments without a subject', () => {
    const text = '/**\n * What a lease is.\n */\n// It ends.\nconst a = 1 // One more\n/** A lease ends. */\n'
    expect(riddleHeaders('core/a.ts', text)).toEqual(['core/a.ts: its header begins with "What"'])
    expect(riddleComments('core/a.ts', text)).toHaveLength(2)
    expect(riddleComments('test/a.ts', text)).toEqual([])
  })

  test('find long functions, long files and long subjects', () => {
    const body = '  call()\n'.repeat(70)
    const text = `const text = 'ä'\nfunction short() {}\nfunction long() {\n${body}}\nclass A {\n  #long() {\n${body}}\n}\n`
    expect(longFunctions('core/a.ts', text)).toEqual(['core/a.ts:3: 72 lines', 'core/a.ts:76: 72 lines'])
    const part = `const Part = () => (
  <>
${'    <br />\n'.repeat(70)}  </>
)
`
    expect(longFunctions('web/a.tsx', part)).toEqual(['web/a.tsx:1: 74 lines'])
    expect(longFiles('core/a.ts', '\n'.repeat(401))).toEqual(['core/a.ts: 401 lines'])
    expect(longFiles('test/a.ts', '\n'.repeat(401))).toEqual([])
    expect(longFiles('actors/runs/run.machine.ts', '\n'.repeat(700))).toEqual([])
    expect(longFiles('protocol/routes.ts', '\n'.repeat(701))).toEqual(['protocol/routes.ts: 701 lines'])
    expect(longSubjects(`${'x'.repeat(60)}\n${'y'.repeat(61)}`)).toEqual(['y'.repeat(61)])
  })

  test('find a short file that one neighbour alone imports', () => {
    const importing = (name: string) => `import { a } from '${name}'\n`
    const sources = new Map([
      ['core/a/planet.ts', importing('./satellite.ts') + importing('./tested.ts') + importing('./heart.ts')],
      ['core/a/satellite.ts', importing('./pair.ts')],
      ['core/a/pair.ts', ''],
      ['core/a/tested.ts', importing('./pair.ts')],
      ['core/a/heart.ts', '\n'.repeat(100)],
      ['core/b/far.ts', importing('../a/planet.ts')],
      ['test/rules/tested.test.ts', importing('../../core/a/tested.ts')],
    ])
    expect(satellites(sources)).toEqual(['core/a/satellite.ts: 1 lines, imported by core/a/planet.ts alone'])
    expect([...linesByFolder(sources)]).toEqual([
      ['core', 106],
      ['core/a', 105],
      ['all', 106],
      ['core/b', 1],
    ])
  })

  test('find a sentence of the product that a test repeats', () => {
    const sentence = 'the printer is out of paper: '
    const sources = new Map([
      ['core/a.ts', `const a = \`the printer is out of paper: \${reason}\``],
      ['test/rules/a.test.ts', `const b = '${sentence}full'`],
      ['test/machines/a.test.ts', `const b = '${sentence}full'`],
    ])
    expect(repeatedSentences(sources)).toEqual([`test/machines/a.test.ts: ${sentence}full`])
  })
})

describe('a violation is reported', () => {
  const importing = (what: string): string => `/** A header. */\nimport { a } from '${what}'\n`

  test.each<[string, string, string]>([
    // layers
    ['core/a.ts', importing('../store/b.ts'), 'core/ must not import store/b.ts'],
    ['core/a.ts', "import type { A } from '../actors/b.ts'", 'core/ must not import actors/b.ts'],
    ['protocol/a.ts', importing('../core/b.ts'), 'protocol/ must not import core/b.ts'],
    ['store/a.ts', importing('../providers/b.ts'), 'store/ must not import providers/b.ts'],
    ['actors/runs/a.ts', importing('../../store/b.ts'), 'actors/ must not import store/b.ts'],
    [
      'actors/a.ts',
      "const lazy = await import('../providers/b.ts')",
      'actors/ must not import providers/b.ts',
    ],
    [
      'transport/a.ts',
      importing('../actors/api/create-host-api.ts'),
      'transport/ must not import actors/api/create-host-api.ts',
    ],
    [
      'transport/a.ts',
      "import {\n  a,\n  b,\n} from '../store/b.ts'\n",
      'transport/ must not import store/b.ts',
    ],
    ['worker/a.ts', importing('../providers/tracker/b.ts'), 'worker/ must not import providers/tracker/b.ts'],
    ['core/a.ts', "import '../bin/b.ts'", 'core/ must not import bin/b.ts'],
    [
      'bin/programs/serve/a.ts',
      "import '../../cli/runs/b.ts'",
      'must not import bin/cli/runs/b.ts, which stands above it',
    ],
    ['attic/a.ts', '', 'attic/ is no folder of the project'],
    // libraries
    ['core/a.ts', importing('typebox'), 'typebox is only for'],
    ['core/a.ts', importing('xstate'), 'xstate is only for'],
    ['store/a.ts', importing('lmdb'), 'lmdb is only for'],
    ['worker/executor.ts', importing('undici'), 'undici is only for'],
    ['transport/http.ts', importing('uWebSockets.js'), 'uWebSockets.js is only for'],
    ['worker/a.ts', "import type { A } from 'uWebSockets.js'", 'uWebSockets.js is only for'],
    ['transport/http.ts', importing('prom-client'), 'prom-client is only for'],
    ['providers/a.ts', importing('ssh2'), 'ssh2 is only for'],
    ['worker/a.ts', importing('@lydell/node-pty'), '@lydell/node-pty is only for'],
    ['actors/a.ts', importing('pino'), 'pino is only for'],
    ['core/a.ts', importing('typebox/compile'), 'typebox is only for'],
    ['core/a.ts', importing('left-pad'), 'no file may load left-pad'],
    // ambient state
    ['core/a.ts', importing('node:fs'), 'node:fs reaches outside'],
    ['core/a.ts', 'const at = Date.now()', 'Date.now: use Clock.now() instead'],
    ['core/a.ts', 'const at = new Date()', 'new Date(): use new Date(clock.now()) instead'],
    ['protocol/a.ts', 'const at = performance.now()', 'performance.now: use Clock.monotonic() instead'],
    ['actors/a.ts', 'setTimeout(run, 1)', 'setTimeout: use Clock.after() or a deadline instead'],
    ['actors/a.ts', 'setInterval(run, 1)', 'setInterval: use'],
    ['actors/a.ts', 'setImmediate(run)', 'setImmediate: use Clock.endOfTick() instead'],
    ['actors/a.ts', 'Math.random()', 'Math.random: use Chance.fraction() instead'],
    ['core/a.ts', "import { randomUUID } from 'node:crypto'", 'randomUUID: use Chance.bytes() instead'],
    ['core/a.ts', 'crypto.randomBytes(4)', 'randomBytes: use Chance.bytes() instead'],
    ['core/a.ts', 'process.env.HOME', 'process.e: use a value that bin/ hands in instead'],
    // names and exceptions
    ['core/utils/a.ts', '', 'a folder of this name says nothing'],
    ['test/helpers/a.ts', '', 'a folder of this name says nothing'],
    ['core/index.ts', "export * from './a.ts'", 're-exports another file'],
    ['core/index.ts', "export type { A } from './a.ts'", 're-exports another file'],
    ['core/a.ts', 'const a: any = 1', 'any without a reason'],
    ['core/a.ts', 'const a = b as any', 'any without a reason'],
    ['core/a.ts', 'const a = new Map<string, any>()', 'any without a reason'],
    ['core/a.ts', '// @ts-ignore\nfoo()', 'a switched-off type check without a reason'],
    ['core/a.ts', '// biome-ignore lint/a/b:\nfoo()', 'biome-ignore without a reason'],
    ['core/a.ts', '// @ts-nocheck because\n', '@ts-nocheck is never right'],
    ['test/a.ts', "test.skip('a', b)", 'test.skip: use testIf'],
    ['test/a.ts', "describe.only('a', b)", 'describe.only: use testIf'],
  ])('%s: %j', (path, text, violation) => {
    expect(violations(new Map([[path, text]]))).toContainEqual(expect.stringContaining(violation))
  })

  test('an import cycle of any length is found, also through lazy imports; type imports are none', () => {
    const circle = new Map([
      ['core/a.ts', "import { b } from './b.ts'"],
      ['core/b.ts', "import { c } from './c.ts'\nimport type { D } from './d.ts'"],
      ['core/c.ts', "await import('./a.ts')"],
      ['core/d.ts', "import { a } from './a.ts'"],
    ])
    expect(violations(circle)).toEqual(['an import cycle: core/a.ts → core/b.ts → core/c.ts → core/a.ts'])
  })
})

describe('sources without a violation', () => {
  test.each<[string, string]>([
    [
      'core/a.ts',
      "import { a } from '../protocol/b.ts'\nimport { c } from './c/d.ts'\nimport { createHash } from 'node:crypto'",
    ],
    [
      'transport/a.ts',
      "import type { FrontDesk } from '../actors/api/host-api.ts'\nimport { Counter } from './metrics.ts'",
    ],
    ['transport/native/a.ts', "import type * as uWS from 'uWebSockets.js'"],
    ['worker/dialer.ts', "import { WebSocket } from 'undici'\nimport { a } from '../actors/runtime/a.ts'"],
    [
      'core/a.ts',
      '/** Not Date.now(), nor Math.random(). */\n// import { a } from "xstate"\nnew Date(at).toISOString()',
    ],
    ['core/a.ts', "const text = 'https://example.org' // any reader may ask\nconst any = { any: 1 }\nany(1)"],
    ['core/a.ts', '// The library says any, and means it.\nconst a: any = 1'],
    ['test/a.ts', "import { a } from 'lmdb'\nsetTimeout(a, 1)"],
    ['bin/a.ts', "import pino from 'pino'\nimport { a } from '../store/lmdb/a.ts'\nprocess.env.HOME"],
    [
      'core/a.ts',
      '// @ts-expect-error the argument is wrong on purpose\nfoo()\n// biome-ignore lint/a/b: the parser needs it\nbar()',
    ],
  ])('%s: %j', (path, text) => {
    expect(violations(new Map([[path, text]]))).toEqual([])
  })
})

describe('reading sources', () => {
  test('every kind of import is found, and which are types only', () => {
    const text =
      "import a from 'a'\nimport type { B } from 'b'\nimport {\n  c,\n} from 'c'\nimport 'd'\nconst e = import('e')\n"
    expect(importsOf(text).map(({ from, typeOnly }) => `${from}${typeOnly ? ' (type)' : ''}`)).toEqual([
      'a',
      'b (type)',
      'c',
      'd',
      'e',
    ])
  })

  test('comments are removed, what only looks like one stays', () => {
    expect(withoutComments("a // b\n'//c' /* d\n */ `//e` = /[/*]'/g")).toBe(
      "a     \n'//c'     \n    `//e` = /[/*]'/g",
    )
  })
})
