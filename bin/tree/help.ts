/** The command `help`: a topic, or the help of a command. */
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings'

/** @param createTree builds the whole tree, whose commands have the help */
export const helpCommand = (createTree: () => CommandUnknownOpts) =>
  new Command('help')
    .exitOverride()
    .description('Explain a command, or exit, environment, json')
    .argument('[command-or-topic...]', 'a command, or one of exit, environment, json')
    .action(async (words) => {
      const { help } = await import('../commands/help.ts')
      help(createTree(), words)
    })
