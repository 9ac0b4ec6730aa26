/** The command line of the worker package: parses the arguments, starts the command, and turns errors into messages and exit codes. */
import { emptyCoreDumps } from './core-dumps.ts'
import { createOutputFor } from './output/create-output.ts'
import { reportError } from './report-error.ts'
import { createWorkerProgram } from './tree/worker-program.ts'

// Set this first: lmdb ignores file modes, and other users must not read our files.
process.umask(0o077)
emptyCoreDumps()

try {
  const words = process.argv.slice(2)
  await createWorkerProgram(words).parseAsync(words, { from: 'user' })
} catch (error) {
  process.exitCode = reportError(error, createOutputFor(process.argv.slice(2)))
}
