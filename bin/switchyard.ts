/** The command line: parses the arguments, starts the command, and turns errors into messages and exit codes. */
import { emptyCoreDumps } from './core-dumps.ts'
import { createOutputFor } from './output/create-output.ts'
import { reportError } from './report-error.ts'
import { createProgramFor } from './tree/program.ts'

// Set this first: lmdb ignores file modes, and other users must not read our files.
process.umask(0o077)
emptyCoreDumps()

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
