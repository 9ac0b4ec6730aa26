/** The command `connect`. */
import { Argument } from '@commander-js/extra-typings'
import { runCommand } from '../client/run-command.ts'
import { clientCommand } from './client-options.ts'

const PROVIDERS = ['tracker', 'codehost', 'storage', 'agentA', 'agentB', 'agentC'] as const

export const connectCommand = () =>
  clientCommand('connect', 'Connect tracker, codehost, storage or an agent')
    .addArgument(new Argument('[provider]', 'without one, what is connected is listed').choices(PROVIDERS))
    .action((provider, options) =>
      runCommand(options, async (context) => {
        const commands = await import('../commands/connect.ts')
        return provider === undefined
          ? await commands.listConnections(context)
          : await commands.connect(context, provider)
      }),
    )
