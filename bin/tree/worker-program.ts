/** The commands of the worker package: those that a machine of the fleet needs, and none that talks to the management API. */
import { Command } from '@commander-js/extra-typings'
import { VERSION } from '../version.ts'
import { versionCommand } from './everyday.ts'
import { workerCommand } from './programs.ts'
import { superviseCommand } from './supervise.ts'
import { throwUsageErrors } from './usage-errors.ts'

export function createWorkerProgram(words: readonly string[]): Command {
  const program = new Command('switchyard-worker')
    .description('Run the worker of switchyard, for machines that execute runs')
    .version(VERSION)
    .exitOverride()
    .enablePositionalOptions()
  for (const command of [workerCommand(), superviseCommand(), versionCommand()]) program.addCommand(command)
  throwUsageErrors(program, words)
  return program
}
