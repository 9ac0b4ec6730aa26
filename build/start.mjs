/**
 * `npm start`: runs switchyard on this machine without any account.
 *
 * Answers at once, checks the machine's requirements, builds, and becomes `switchyard quickstart` with a data directory
 * of its own, `.data/` in the checkout. Passes its arguments on (`npm start -- --keep`).
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const TICK_MS = 250
const EXIT_BROKEN = 70
const args = process.argv.slice(2)
const isHelp = args.some((arg) => arg === '--help' || arg === '-h')
// Standard output belongs to the help, and with --json to the runs' records.
const out = isHelp || args.includes('--json') ? process.stderr : process.stdout
if (!isHelp) out.write('switchyard: three example tickets, no account, no network\n')

const { checkSystem } = await import('./check-system.mjs')
await checkSystem()
const { build, isBuilt, program } = await import('./build.mjs')
const { root } = await import('./bundle.mjs')
if (!isBuilt()) await buildWithProgress()
process.argv = [
  process.execPath,
  program,
  'quickstart',
  '--no-heading',
  '--data-dir',
  join(root, '.data'),
  ...args,
]
// Runs in this process, so that signals and the exit code need no forwarding.
await import(pathToFileURL(program).href)

/** A person who tries it reads one sentence; `npm run build` shows the place of a mistake in the code. */
function endWithSentence(error) {
  const mayNotWrite = ['EACCES', 'EPERM', 'EROFS'].includes(error.code)
  const why = mayNotWrite ? `this folder can't be written (${error.code})` : error.message
  process.stderr.write(`\nswitchyard: the build failed: ${why}\n  try: `)
  process.stderr.write(mayNotWrite ? 'copy the checkout to a folder of your own\n' : 'npm run build\n')
  process.exit(EXIT_BROKEN)
}

/** Shows the seconds in place on a terminal; elsewhere one line for the beginning and one for the end. */
async function buildWithProgress() {
  const isRedrawn = out.isTTY === true && process.env.TERM !== 'dumb' && !process.env.CI
  const began = performance.now()
  const seconds = () => `${((performance.now() - began) / 1000).toFixed(1)}s`
  const line = (text) => `  ${'build'.padEnd(11)} ${text}`
  const draw = () => out.write(`\r\x1b[K${line(seconds())}`)
  out.write(isRedrawn ? line(seconds()) : `${line('begins')}\n`)
  const timer = isRedrawn ? setInterval(draw, TICK_MS) : undefined
  try {
    await build().catch(endWithSentence)
    out.write(`${isRedrawn ? '\r\x1b[K' : ''}${line(`done, ${seconds()}`)}\n`)
  } finally {
    clearInterval(timer)
  }
}
