/** The command `connect`. */
import { Argument, InvalidArgumentError } from '@commander-js/extra-typings'
import { agentName, providerNamed } from '../../client/agent-names.ts'
import { AGENT_PROVIDERS, type AgentProvider } from '../../protocol/agents/registry.ts'
import { runCommand } from '../client/run-command.ts'
import { clientCommand } from './client-options.ts'

const SERVICES = ['tracker', 'codehost', 'storage'] as const
const AGENT_NAMES = AGENT_PROVIDERS.map(agentName)

/** An agent is also named by the word of the wire, which is not listed. */
function parseProvider(word: string): (typeof SERVICES)[number] | AgentProvider {
  const found = SERVICES.find((name) => name === word) ?? providerNamed(word)
  if (found !== undefined) return found
  throw new InvalidArgumentError(`It is one of ${[...SERVICES, ...AGENT_NAMES].join(', ')}.`)
}

export const connectCommand = () =>
  clientCommand('connect', 'Connect tracker, codehost, storage or an agent')
    .addArgument(
      new Argument('[provider]', `${[...SERVICES, ...AGENT_NAMES].join(', ')}; without one, all are listed`)
        .choices([...SERVICES, ...AGENT_NAMES])
        .argParser(parseProvider),
    )
    .option('--token', 'give a token: not shown while it is typed, or from standard input')
    .action((provider, options) =>
      runCommand(options, async (context) => {
        const commands = await import('../commands/connect.ts')
        return provider === undefined
          ? await commands.listConnections(context)
          : await commands.connect(context, provider)
      }),
    )
