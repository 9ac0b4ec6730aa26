/** The command line: parses the arguments, starts the command, and turns errors into messages and exit codes. */

import { createProgramFor } from './cli/program.ts'
import { createOutputFor } from './output/output.ts'
import { emptyCoreDumps } from './process/core-dumps.ts'
import { EXIT } from './process/exit.ts'
import { reportError } from './process/report-error.ts'

// Set this first: lmdb ignores file modes, and other users must not read our files.
process.umask(0o077)
emptyCoreDumps()

/** Help is printed without an `Output`, which handles the errors of its stream itself. */
process.stdout.on('error', ({ code = '' }: NodeJS.ErrnoException) => {
  if (process.stdout.listenerCount('error') > 1) return
  const isClosed = code === 'EPIPE'
  if (!isClosed) process.stderr.write(`switchyard: standard output cannot be written (${code})\n`)
  process.exit(isClosed ? EXIT.done : EXIT.broken)
})

async function run(): Promise<void> {
  const words = process.argv.slice(2)
  // On a terminal the bare name asks how things are; elsewhere commander prints the help and ends with wrong usage.
  const isBare = words.length === 0 && process.stdout.isTTY === true
  const given = isBare ? ['status'] : words
  await createProgramFor(given).parseAsync(given, { from: 'user' })
  if (isBare && (process.exitCode ?? 0) === 0) createOutputFor(given).note('Help: switchyard --help')
}

// The bundle is CommonJS, which has no `await` outside of functions.
run().catch((error: unknown) => {
  process.exitCode = reportError(error, createOutputFor(process.argv.slice(2)))
})
