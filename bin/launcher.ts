/**
 * The program that people start: it runs the client commands from their bundle, with the code that V8 compiled for the
 * same version of Node when the bundle was built. Compiling anew costs a fifth of the start, and a third of that of a
 * host or a worker, which have bundles of their own.
 *
 * V8 refuses code of another version or of another source, and then it compiles the source.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Script } from 'node:vm'

/** The bundle is a function with the names that CommonJS gives to a file. */
type Bundle = (
  exports: object,
  require: NodeJS.Require,
  module: { readonly exports: object },
  filename: string,
  dirname: string,
  loadProgram: (name: string) => Promise<unknown>,
) => void

runBundle(join(__dirname, 'client-commands.js'))

function runBundle(path: string): object {
  const script = new Script(readFileSync(path, 'utf8'), {
    filename: path,
    cachedData: readCode(`${path}.code`),
  })
  const run: Bundle = script.runInThisContext()
  const own = { exports: {} }
  run(own.exports, require, own, path, dirname(path), loadProgram)
  return own.exports
}

// A script with compiled code can't import modules by itself.
async function loadProgram(name: string): Promise<unknown> {
  const path = join(__dirname, 'programs', name)
  return existsSync(`${path}.cjs`) ? runBundle(`${path}.cjs`) : import(`${path}.js`)
}

function readCode(file: string): Buffer | undefined {
  try {
    return readFileSync(file)
  } catch {
    return undefined
  }
}
