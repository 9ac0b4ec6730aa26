/** Lets every message of commander begin with the name of the program; commander passes no setting on to added commands. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings'

export function nameErrors(command: CommandUnknownOpts): void {
  command.configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'switchyard: ')) })
  for (const verb of command.commands) nameErrors(verb)
}
