/**
 * Runs TypeScript in a separate process, for tests that kill, race or starve a real process.
 *
 * Each test file bundles an entry once into the checkout's cache, with its packages, and runs it with plain node: one
 * file starts in a third of the processor time that the hundreds of files of its packages need. A stack names places of
 * the bundle, because reading a source map also costs each process a tenth of a second.
 */
import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { afterAll } from '@jest/globals'
import { options } from '../../build/bundle.mjs'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const cache = join(root, 'node_modules', '.cache', 'switchyard-tests')
const bundles = new Map<string, string>()
const createdFiles: string[] = []

afterAll(() => {
  for (const file of createdFiles.splice(0)) rmSync(file, { force: true })
})

export interface TestProcess {
  readonly process: ChildProcessByStdio<null, Readable, Readable>
  /** Complete lines of its standard output so far. */
  readonly lines: string[]
  readonly errors: string[]
  /** Resolves to the exit code, or to the signal that ended the process. */
  readonly ended: Promise<number | NodeJS.Signals>
}

/**
 * Starts `entry`, a path relative to the checkout's root.
 *
 * @param before the words of a program that runs the rest of its arguments
 */
export function runTypeScript(
  entry: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  before: readonly string[] = [],
): TestProcess {
  const [program = '', ...words] = [...before, process.execPath, bundleOf(entry), ...args]
  const child = spawn(program, words, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_OPTIONS: '', ...env },
  })
  const lines: string[] = []
  const errors: string[] = []
  collectLines(child.stdout, lines)
  collectLines(child.stderr, errors)
  const ended = new Promise<number | NodeJS.Signals>((resolve) => {
    child.on('close', (code, signal) => resolve(code ?? signal ?? -1))
  })
  return { process: child, lines, errors, ended }
}

/** Compiles a small program or library in C with the system's `cc`. */
export function compileC(source: string, flags: readonly string[]): string {
  mkdirSync(cache, { recursive: true })
  const out = join(cache, `${basename(source, '.c')}-${process.pid}.so`)
  execFileSync('cc', [...flags, '-o', out, join(root, source), '-ldl', '-lpthread'])
  createdFiles.push(out)
  return out
}

function bundleOf(entry: string): string {
  const known = bundles.get(entry)
  if (known !== undefined) return known
  // The name contains the process id, so parallel test files do not replace each other's bundles.
  const out = join(cache, `${entry.replaceAll('/', '-')}-${process.pid}.mjs`)
  const flags = [
    '--bundle',
    '--platform=node',
    '--format=esm',
    ...options.external.map((name) => `--external:${name}`),
    `--banner:js=${options.banner.js}`,
    '--log-level=error',
  ]
  execFileSync(join(root, 'node_modules', '.bin', 'esbuild'), [
    join(root, entry),
    `--outfile=${out}`,
    ...flags,
  ])
  bundles.set(entry, out)
  createdFiles.push(out)
  return out
}

function collectLines(stream: Readable, lines: string[]): void {
  let rest = ''
  stream.setEncoding('utf8')
  stream.on('data', (text: string) => {
    const parts = (rest + text).split('\n')
    rest = parts.pop() ?? ''
    for (const part of parts) lines.push(part)
  })
}
