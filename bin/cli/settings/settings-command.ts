/**
 * The noun `config` and the command `connect`, which both write settings of a host.
 *
 * `config.ts` reads and `config-change.ts` writes. What a setting means is said in `protocol/`, never here.
 */
import { Argument, InvalidArgumentError } from '@commander-js/extra-typings'
import { agentName, providerNamed } from '../../../client/agent-names.ts'
import { AGENT_PROVIDERS, type AgentProvider } from '../../../protocol/agents/registry.ts'
import { clientCommand } from '../command/client-options.ts'
import { clientAction, runCommand } from '../command/run-command.ts'

const loadConfig = () => import('./config.ts')
const loadConfigChange = () => import('./config-change.ts')
const loadConfigEdit = () => import('./config-edit.ts')

export const configCommand = () =>
  clientCommand('config', 'Read and change settings')
    .action(clientAction(loadConfig, ({ get }, context) => get(context)))
    .addCommand(getVerb())
    .addCommand(describeVerb())
    .addCommand(setVerb())
    .addCommand(unsetVerb())
    .addCommand(editVerb())
    .addCommand(pathVerb())

const getVerb = () =>
  clientCommand('get', 'Print the settings in force; secrets are masked')
    .argument('[key]', 'like repos.api.setup, or a section')
    .action(clientAction(loadConfig, ({ get }, context, key) => get(context, key)))

const describeVerb = () =>
  clientCommand('describe', 'Say what a setting means and takes')
    .argument('<key>', 'like sandbox.memoryMib')
    .action(clientAction(loadConfig, ({ describe }, context, key) => describe(context, key)))

const setVerb = () =>
  clientCommand('set', 'Change one setting')
    .argument('<key>', 'like sandbox.concurrency')
    .argument('[value]', 'JSON, or a text; a secret is read from standard input instead')
    .option(
      '--confirm <keys>',
      'the settings with power over the machine that this changes, as it names them',
    )
    .action(clientAction(loadConfigChange, ({ set }, context, key, value) => set(context, key, value)))

const unsetVerb = () =>
  clientCommand('unset', 'Take one setting back to its default')
    .argument('<key>', 'like sandbox.concurrency')
    .option(
      '--confirm <keys>',
      'the settings with power over the machine that this changes, as it names them',
    )
    .action(clientAction(loadConfigChange, ({ unset }, context, key) => unset(context, key)))

const editVerb = () =>
  clientCommand('edit', 'Open the file in an editor').action(
    clientAction(loadConfigEdit, ({ configEdit }, context) => configEdit(context)),
  )

const pathVerb = () =>
  clientCommand('path', 'Say where the file is').action(
    clientAction(loadConfig, ({ path }, context) => path(context)),
  )

// ---- connect -------------------------------------------------------------------------------------------------------

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
        const commands = await import('./connect.ts')
        return provider === undefined
          ? await commands.listConnections(context)
          : await commands.connect(context, provider)
      }),
    )
