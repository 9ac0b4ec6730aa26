/**
 * `npm start`: switchyard on this machine, with nothing to sign up for.
 *
 * Sees that the machine has what is needed, builds, and becomes `switchyard quickstart` with a data directory of its
 * own, `.data/` in the checkout. Arguments go to it (`npm start -- --keep`).
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, isBuilt, program } from './build.mjs'
import { root } from './bundle.mjs'
import { checkSystem } from './check-system.mjs'

await checkSystem()
if (!isBuilt()) await build()
process.argv = [
  process.execPath,
  program,
  'quickstart',
  '--data-dir',
  join(root, '.data'),
  ...process.argv.slice(2),
]
// In this very process: whoever stops it stops the program itself, and its exit code needs nobody to pass it on.
await import(pathToFileURL(program).href)
