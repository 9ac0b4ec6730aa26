/** How little the client commands load, so that they start in a moment. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { tempFolder } from '../../support/temp-folder.ts'

const program = join(import.meta.dirname, '..', '..', '..', 'dist', 'bin', 'switchyard.js')
/** Each of these takes about as long to load as a whole request. */
const SLOW = ['child_process', 'crypto', 'fs/promises', 'https', 'readline', 'worker_threads']

test('the client commands are bundled without a logger, schemas and state machines', () => {
  const packages = readFileSync(program, 'utf8').matchAll(/^ *\/\/ node_modules\/((?:@[^/]+\/)?[^/]+)/gm)
  expect([...new Set([...packages].map(([, name]) => name))].sort()).toEqual([
    '@commander-js/extra-typings',
    'commander',
  ])
})

test.each([['--version'], ['status', '--json']])('%s %s loads nothing slow of Node', (...words: string[]) => {
  const folder = tempFolder()
  const [preload, list] = [join(folder, 'preload.cjs'), join(folder, 'loaded.json')]
  writeFileSync(
    preload,
    `process.on('exit', () => {
      process.exitCode = 0
      require('node:fs').writeFileSync(${JSON.stringify(list)}, JSON.stringify(process.moduleLoadList))
    })`,
  )
  const before = loadedBy('-e', '0')
  const after = loadedBy(program, ...words.filter((word) => word !== undefined))
  expect(after).toContain('NativeModule path')
  expect(SLOW.filter((name) => !before.includes(named(name)) && after.includes(named(name)))).toEqual([])

  function loadedBy(...args: string[]): string[] {
    const env = { ...process.env, SWITCHYARD_DATA_DIR: folder, SWITCHYARD_URL: '' }
    execFileSync(process.execPath, ['--require', preload, ...args], { env, stdio: 'ignore' })
    return JSON.parse(readFileSync(list, 'utf8'))
  }
})

const named = (name: string): string => `NativeModule ${name}`
