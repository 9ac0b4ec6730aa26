/**
 * The commands `help` and `completion`, and the hidden one that the printed scripts call.
 *
 * This folder has what is made of the tree of commands: topics, manual pages, completion. No command's own words live here.
 */
import { Argument, Command, type CommandUnknownOpts } from '@commander-js/extra-typings'

const SHELLS = ['bash', 'zsh', 'fish'] as const

export const completionCommand = () =>
  new Command('completion')
    .exitOverride()
    .description('Print the script that completes words and ids in a shell')
    .addArgument(new Argument('<shell>').choices(SHELLS))
    .addHelpText(
      'after',
      `
Examples:
  source <(switchyard completion bash)          in ~/.bashrc
  source <(switchyard completion zsh)           in ~/.zshrc, behind compinit
  switchyard completion fish | source           in ~/.config/fish/config.fish`,
    )
    .action(async (shell) => {
      const { completion } = await import('./completion.ts')
      completion(shell)
    })

/** @param createTree builds the whole tree, whose words complete a line */
export const completeCommand = (createTree: () => CommandUnknownOpts) =>
  new Command('complete')
    .exitOverride()
    .description('Answer a shell that completes a line')
    .argument('[words...]')
    .action(async (words) => {
      const { complete } = await import('./complete.ts')
      await complete(createTree(), words)
    })

/** @param createTree builds the whole tree, whose commands have the help */
export const helpCommand = (createTree: () => CommandUnknownOpts) =>
  new Command('help')
    .exitOverride()
    .description('Explain a command, or exit, environment, json')
    .argument('[command-or-topic...]', 'a command, or one of exit, environment, json')
    .action(async (words) => {
      const { help } = await import('./help.ts')
      help(createTree(), words)
    })
