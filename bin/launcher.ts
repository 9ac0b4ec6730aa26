/**
 * The program that people start: it runs the client commands from their bundle, with the code that V8 compiled for the
 * same version of Node when the bundle was built. Compiling anew costs a fifth of the start.
 *
 * V8 refuses code of another version or of another source, and then it compiles the source.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Script } from 'node:vm'

/** The bundle is a function with the names that CommonJS gives to a file. */
type Bundle = (
  exports: object,
  require: NodeJS.Require,
  module: NodeJS.Module,
  filename: string,
  dirname: string,
  loadProgram: (name: string) => Promise<unknown>,
) => void

const path = join(__dirname, 'client-commands.js')
const script = new Script(readFileSync(path, 'utf8'), {
  filename: path,
  cachedData: readCode(`${path}.code`),
})
const run: Bundle = script.runInThisContext()
// A script with compiled code can't import modules by itself.
run({}, require, module, path, __dirname, (name) => import(join(__dirname, 'programs', `${name}.js`)))

function readCode(file: string): Buffer | undefined {
  try {
    return readFileSync(file)
  } catch {
    return undefined
  }
}
