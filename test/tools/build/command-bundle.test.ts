/** How little the client commands load, so that they start in a moment. */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { tempFolder } from '../../support/temp-folder.ts'

const built = join(import.meta.dirname, '..', '..', '..', 'dist', 'bin')
const program = join(built, 'switchyard.js')
/** Each of these takes about as long to load as a whole request. */
const SLOW = ['child_process', 'crypto', 'fs/promises', 'https', 'readline', 'worker_threads']

test('the client commands are bundled without a logger, schemas and state machines', () => {
  expect(packagesOf('client-commands.js')).toEqual(['@commander-js/extra-typings', 'commander'])
})

test('`status --json` in a pipe is bundled without the client and its HTTP', () => {
  expect(packagesOf('switchyard.js')).toEqual([])
  expect(sourcesOf('switchyard.js')).not.toContain('client/client.ts')
})

function packagesOf(name: string): string[] {
  const packages = sourcesOf(name).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1])
  return [...new Set(packages.filter((each) => each !== undefined))].sort()
}

function sourcesOf(name: string): string[] {
  const { sources } = JSON.parse(readFileSync(join(built, `${name}.map`), 'utf8'))
  return sources.map((path: string) => path.replace(/^(\.\.\/)+/, ''))
}

test.each([['--version'], ['status', '--json']])('%s %s loads nothing slow of Node', (...words: string[]) => {
  const before = loadedBy('-e', '0')
  const after = loadedBy(program, ...words.filter((word) => word !== undefined))
  expect(after).toContain('NativeModule path')
  expect(SLOW.filter((name) => !before.includes(named(name)) && after.includes(named(name)))).toEqual([])
})

test.each([
  'switchyard.js',
  'client-commands.js',
  'programs/serve.cjs',
  'programs/worker.cjs',
  'programs/doctor.cjs',
])('%s has one byte for each character, because V8 keeps the source of what runs', (name) => {
  const bytes = readFileSync(join(built, name))
  // A pattern that also matches the line's other characters tries them from each of its places, for seconds.
  const at = bytes.findIndex((byte) => byte > 0x7f)
  expect(at === -1 ? '' : lineAround(bytes, at)).toBe('')
})

test('a worker is loaded without the copy of undici that Node contains', () => {
  const loaded = loadedBy(program, 'worker', '--host', 'no-address')
  expect(loaded).toContain('NativeModule tls')
  expect(loaded.filter((name) => name.includes('undici'))).toEqual([])
})

/** The modules of Node that a command has loaded when it ends. */
function loadedBy(...args: string[]): string[] {
  const folder = tempFolder()
  const [preload, list] = [join(folder, 'preload.cjs'), join(folder, 'loaded.json')]
  writeFileSync(
    preload,
    `process.on('exit', () => {
      process.exitCode = 0
      require('node:fs').writeFileSync(${JSON.stringify(list)}, JSON.stringify(process.moduleLoadList))
    })`,
  )
  const env = { ...process.env, SWITCHYARD_DATA_DIR: folder, SWITCHYARD_URL: '' }
  execFileSync(process.execPath, ['--require', preload, ...args], { env, stdio: 'ignore' })
  return JSON.parse(readFileSync(list, 'utf8'))
}

test.each(['client-commands.js', 'programs/serve.cjs', 'programs/worker.cjs', 'programs/doctor.cjs'])(
  'V8 takes the compiled code of %s',
  (name) => {
    // In a process of its own, because V8 also refuses code that was compiled under other flags than those of Jest.
    const script = `
    const { readFileSync } = require('node:fs')
    const [filename] = process.argv.slice(1)
    const cachedData = readFileSync(filename + '.code')
    const script = new (require('node:vm').Script)(readFileSync(filename, 'utf8'), { filename, cachedData })
    process.stdout.write(String(script.cachedDataRejected))`
    expect(execFileSync(process.execPath, ['-e', script, join(built, name)], { encoding: 'utf8' })).toBe(
      'false',
    )
  },
)

test.each([
  ['of another version', (path: string) => writeFileSync(path, 'compiled by another version of Node')],
  ['missing', (path: string) => rmSync(path)],
])('commands and programs start where the compiled code is %s', (_, spoil) => {
  const folder = join(tempFolder(), 'dist')
  cpSync(built, join(folder, 'bin'), { recursive: true })
  symlinkSync(join(built, '..', '..', 'node_modules'), join(folder, '..', 'node_modules'))
  for (const name of ['client-commands.js', 'programs/serve.cjs']) spoil(join(folder, 'bin', `${name}.code`))
  const run = (...words: string[]): string =>
    execFileSync(process.execPath, [join(folder, 'bin', 'switchyard.js'), ...words], { encoding: 'utf8' })
  expect(run('--version')).toBe(execFileSync(process.execPath, [program, '--version'], { encoding: 'utf8' }))
  expect(run('completion', 'bash')).toContain('complete')
  const hostWithoutFolder = (from: string): string =>
    spawnSync(process.execPath, [join(from, 'switchyard.js'), 'serve', '--data-dir', '/dev/null'], {
      encoding: 'utf8',
    }).stderr.replace(/"(time|pid)":("[^"]*"|\d+)/g, '')
  expect(hostWithoutFolder(join(folder, 'bin'))).toBe(hostWithoutFolder(built))
  expect(hostWithoutFolder(built)).toContain('/dev/null')
})

const lineAround = (bytes: Buffer, at: number): string =>
  bytes.subarray(bytes.lastIndexOf('\n', at) + 1, bytes.indexOf('\n', at)).toString()

const named = (name: string): string => `NativeModule ${name}`
