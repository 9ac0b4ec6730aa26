/**
 * Runs the bundle of the client commands once, or loads that of a program, and writes the code that V8 compiled for it,
 * the functions of that run included. Started by `build.mjs` as a process of its own:
 * `compile-commands.mjs BUNDLE ARGUMENTS…`.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { Script } from 'node:vm'

const [node, , path, ...words] = process.argv
const script = new Script(readFileSync(path, 'utf8'), { filename: path })
process.argv = [node, path, ...words]
process.on('exit', () => {
  writeFileSync(`${path}.code`, script.createCachedData())
  // Without a host the command has failed, as expected.
  process.exitCode = 0
})
script.runInThisContext()({}, createRequire(path), { exports: {} }, path, dirname(path), () => {
  throw new Error('this command is no program')
})
