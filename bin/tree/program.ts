/** The tree of all commands. Each command loads what it does only when it runs. */
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings'
import { VERSION } from '../version.ts'
import { configCommand } from './config.ts'
import { connectCommand } from './connect.ts'
import { costsCommand } from './costs.ts'
import { everydayCommands } from './everyday.ts'
import { memoriesCommand } from './memories.ts'
import { oauthHelperCommand, quickstartCommand, serveCommand, workerCommand } from './programs.ts'
import { pullsCommand } from './pulls.ts'
import { ROOT_HELP } from './root-help.ts'
import { runsCommand, runVerbs } from './runs.ts'
import { workersCommand } from './workers.ts'

export function createProgram(): Command {
  const program = new Command('switchyard').version(VERSION).exitOverride().enablePositionalOptions()
  program.helpInformation = () => ROOT_HELP
  for (const command of [
    ...everydayCommands(),
    runsCommand(),
    ...runVerbs(),
    workersCommand(),
    pullsCommand(),
    memoriesCommand(),
    costsCommand(),
    connectCommand(),
    configCommand(),
    serveCommand(),
    workerCommand(),
    quickstartCommand(),
    oauthHelperCommand(),
  ])
    program.addCommand(command)
  nameErrors(program)
  return program
}

/** Every message begins with the name of the program; commander passes no setting on to commands that are added. */
function nameErrors(command: CommandUnknownOpts): void {
  command.configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'switchyard: ')) })
  for (const verb of command.commands) nameErrors(verb)
}
