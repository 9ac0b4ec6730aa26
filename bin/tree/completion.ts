/** The command `completion`, and the hidden one that the printed scripts call. */
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
      const { completion } = await import('../commands/completion.ts')
      completion(shell)
    })

/** @param createTree builds the whole tree, whose words complete a line */
export const completeCommand = (createTree: () => CommandUnknownOpts) =>
  new Command('complete')
    .exitOverride()
    .description('Answer a shell that completes a line')
    .argument('[words...]')
    .action(async (words) => {
      const { complete } = await import('../commands/complete.ts')
      await complete(createTree(), words)
    })
