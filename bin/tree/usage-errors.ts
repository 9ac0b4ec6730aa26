/**
 * Wrong usage as an error with a sentence and its cure, like every other error of a command: commander alone prints a
 * text of its own, also for a program that asked for JSON. Its help and its version are no errors and pass.
 */
import type { CommanderError, CommandUnknownOpts } from '@commander-js/extra-typings'
import { EXIT, ExitError } from '../exit.ts'

const NO_ERRORS = new Set(['commander.help', 'commander.helpDisplayed', 'commander.version'])
/** The message names the values that are allowed. */
const NAMES_CURE = new Set(['commander.invalidArgument'])

/** Applies to every command below, because commander passes no setting on to added commands. */
export function throwUsageErrors(command: CommandUnknownOpts): void {
  command.configureOutput({ outputError: () => {} })
  command.exitOverride((error) => {
    throw NO_ERRORS.has(error.code) ? error : describeUsage(error, command)
  })
  for (const verb of command.commands) throwUsageErrors(verb)
}

function describeUsage({ code, message }: CommanderError, command: CommandUnknownOpts): ExitError {
  const sentence = message.replace(/^error: /, '').replace(/\n\(Did you mean (.*)\?\)$/, '; did you mean $1?')
  return new ExitError(EXIT.usage, sentence, NAMES_CURE.has(code) ? undefined : `${nameOf(command)} --help`)
}

/** Such as `switchyard runs list`. */
function nameOf(command: CommandUnknownOpts): string {
  return command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`
}
