/** The house is as its map says: storeys, doors, names, and nothing ambient where decisions are made. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import { complaints, importsOf, installScripts, withoutComments } from './support/structure-rules.ts'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const NOT_OURS = ['node_modules', 'dist', 'coverage', '.data', '.agents', '.git']

function sourcesOf(folder: string): [string, string][] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter(({ name }) => !NOT_OURS.includes(name))
    .flatMap((entry): [string, string][] => {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) return sourcesOf(path)
      return /\.[mc]?tsx?$/.test(path) ? [[path, readFileSync(join(root, path), 'utf8')]] : []
    })
}

test('this house is tidy', () => {
  expect(complaints(new Map(sourcesOf('')))).toEqual([])
})

test('every top-level folder is known', () => {
  const known =
    'protocol core store providers actors transport worker oauth-helper inspector bin bench build examples test docs .ci'
  const folders = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const strange = folders
    .map(({ name }) => name)
    .filter((name) => ![...NOT_OURS, ...known.split(' ')].includes(name))
  expect(strange).toEqual([])
})

test('every file that a page of the project names is there', () => {
  const pages = ['.', 'docs', 'test', 'examples'].flatMap((folder) =>
    readdirSync(join(root, folder))
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(folder, name)),
  )
  const missing = pages.flatMap((page) => {
    const text = readFileSync(join(root, page), 'utf8').replace(/```[\s\S]*?```/g, '')
    const linked = [...text.matchAll(/\]\((?!http)([^)#]+)\)/g)].map(([, path = '']) =>
      join(dirname(page), path),
    )
    const named = [...text.matchAll(/`([\w./-]+\/[\w.-]+\.(?:ts|md|mjs|json))`/g)].map(
      ([, path = '']) => path,
    )
    const exists = (path: string) =>
      [root, join(root, dirname(page))].some((from) => existsSync(join(from, path)))
    return [...linked, ...named].filter((path) => !exists(path)).map((path) => `${page}: ${path}`)
  })
  expect(missing).toEqual([])
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

describe('an untidy house is complained about', () => {
  const importing = (what: string): string => `/** Theory. */\nimport { a } from '${what}'\n`

  test.each<[string, string, string]>([
    // storeys
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
    ['attic/a.ts', '', 'attic/ is not a folder of the house'],
    // doors
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
    ['core/a.ts', importing('left-pad'), 'left-pad has no door'],
    // the world
    ['core/a.ts', importing('node:fs'), 'node:fs touches the world'],
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
    // names and habits
    ['core/utils/a.ts', '', 'a folder of this name says nothing'],
    ['test/helpers/a.ts', '', 'a folder of this name says nothing'],
    ['core/index.ts', "export * from './a.ts'", 'passes on what lives elsewhere'],
    ['core/index.ts', "export type { A } from './a.ts'", 'passes on what lives elsewhere'],
    ['core/a.ts', 'const a: any = 1', 'any without a reason'],
    ['core/a.ts', 'const a = b as any', 'any without a reason'],
    ['core/a.ts', 'const a = new Map<string, any>()', 'any without a reason'],
    ['core/a.ts', '// @ts-ignore\nfoo()', 'a switched-off type check without a reason'],
    ['core/a.ts', '// biome-ignore lint/a/b:\nfoo()', 'biome-ignore without a reason'],
    ['core/a.ts', '// @ts-nocheck because\n', '@ts-nocheck is never right'],
  ])('%s: %j', (path, text, complaint) => {
    expect(complaints(new Map([[path, text]]))).toContainEqual(expect.stringContaining(complaint))
  })

  test('a circle, however long, also one of lazy imports; types make none', () => {
    const circle = new Map([
      ['core/a.ts', "import { b } from './b.ts'"],
      ['core/b.ts', "import { c } from './c.ts'\nimport type { D } from './d.ts'"],
      ['core/c.ts', "await import('./a.ts')"],
      ['core/d.ts', "import { a } from './a.ts'"],
    ])
    expect(complaints(circle)).toEqual(['a circle: core/a.ts → core/b.ts → core/c.ts → core/a.ts'])
  })
})

describe('a tidy house is left in peace', () => {
  test.each<[string, string]>([
    [
      'core/a.ts',
      "import { a } from '../protocol/b.ts'\nimport { c } from './c/d.ts'\nimport { createHash } from 'node:crypto'",
    ],
    [
      'transport/a.ts',
      "import type { FrontDesk } from '../actors/api/host-api.ts'\nimport type { HttpRequest } from 'uWebSockets.js'",
    ],
    ['transport/listener.ts', "import uWS, { type TemplatedApp } from 'uWebSockets.js'"],
    ['worker/dial.ts', "import { WebSocket } from 'undici'\nimport { a } from '../actors/runtime/a.ts'"],
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
    expect(complaints(new Map([[path, text]]))).toEqual([])
  })
})

describe('reading sources', () => {
  test('every kind of import is seen, and what is only a type', () => {
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

  test('comments go, whatever only looks like one stays', () => {
    expect(withoutComments("a // b\n'//c' /* d\n */ `//e` = /[/*]'/g")).toBe(
      "a     \n'//c'     \n    `//e` = /[/*]'/g",
    )
  })
})
