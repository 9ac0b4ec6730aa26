/**
 * The command line of the worker package: parses the arguments, starts the command, and turns errors into messages and
 * exit codes.
 */

import { Command } from '@commander-js/extra-typings'
import { versionCommand } from './cli/api/api-command.ts'
import { throwUsageErrors } from './cli/command/usage-errors.ts'
import { createOutputFor } from './output/output.ts'
import { emptyCoreDumps } from './process/core-dumps.ts'
import { reportError } from './process/report-error.ts'
import { VERSION } from './process/this-program.ts'
import { superviseCommand } from './programs/supervise/supervise-command.ts'
import { workerCommand } from './programs/worker/worker-command.ts'

// Set this first: lmdb ignores file modes, and other users must not read our files.
process.umask(0o077)
emptyCoreDumps()

try {
  const words = process.argv.slice(2)
  await createWorkerProgram(words).parseAsync(words, { from: 'user' })
} catch (error) {
  process.exitCode = reportError(error, createOutputFor(process.argv.slice(2)))
}

/**
 * The commands of the worker package: those that a machine of the fleet needs, and none that talks to the management
 * API.
 */
function createWorkerProgram(words: readonly string[]): Command {
  const program = new Command('switchyard-worker')
    .description('Run the worker of switchyard, for machines that execute runs')
    .version(VERSION)
    .exitOverride()
    .enablePositionalOptions()
  for (const command of [workerCommand(), superviseCommand(), versionCommand()]) program.addCommand(command)
  throwUsageErrors(program, words)
  return program
}
