/**
 * `npm start`: runs switchyard on this machine without any account.
 *
 * Checks the machine's requirements, builds, and becomes `switchyard quickstart` with a data directory of its own,
 * `.data/` in the checkout. Passes its arguments on (`npm start -- --keep`).
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
// Runs in this process, so that signals and the exit code need no forwarding.
await import(pathToFileURL(program).href)
