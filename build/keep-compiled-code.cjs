/**
 * Preloaded by `compile-programs.mjs`: when the command ends, writes the code that V8 compiled for the last bundle that
 * `bin/launcher.ts` loaded, the functions that ran included.
 *
 * A host starts its local worker under the same options of Node, so this file is preloaded there, too.
 */
const { chmodSync, renameSync, writeFileSync } = require('node:fs')
const v8 = require('node:v8')
const vm = require('node:vm')

const { Script } = vm
let last

vm.Script = function createScript(source, options) {
  const script = new Script(source, typeof options === 'string' ? options : { filename: options?.filename })
  if (typeof options?.filename === 'string') last = { script, path: `${options.filename}.code` }
  return script
}
// V8 refuses code that was compiled under other flags than those of a start.
v8.setFlagsFromString = () => {}
process.on('exit', () => {
  if (last === undefined) return
  const draft = `${last.path}.${process.pid}`
  writeFileSync(draft, last.script.createCachedData())
  // The commands keep their own files from other users; this one is for everybody who may start them.
  chmodSync(draft, 0o644)
  renameSync(draft, last.path)
})
