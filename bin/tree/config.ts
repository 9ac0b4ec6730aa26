/** The noun `config`. */
import { runCommand } from '../client/run-command.ts'
import { clientCommand } from './client-options.ts'

export const configCommand = () =>
  clientCommand('config', 'Read and change settings')
    .action((options) =>
      runCommand(options, async (context) => (await import('../commands/config.ts')).get(context)),
    )
    .addCommand(getVerb())
    .addCommand(describeVerb())
    .addCommand(setVerb())
    .addCommand(unsetVerb())
    .addCommand(editVerb())
    .addCommand(pathVerb())

const getVerb = () =>
  clientCommand('get', 'Print the settings in force; secrets are masked')
    .argument('[key]', 'like repos.api.setup, or a section')
    .action((key, options) =>
      runCommand(options, async (context) => (await import('../commands/config.ts')).get(context, key)),
    )

const describeVerb = () =>
  clientCommand('describe', 'Say what a setting means and takes')
    .argument('<key>', 'like sandbox.memoryMib')
    .action((key, options) =>
      runCommand(options, async (context) => (await import('../commands/config.ts')).describe(context, key)),
    )

const setVerb = () =>
  clientCommand('set', 'Change one setting')
    .argument('<key>', 'like sandbox.concurrency')
    .argument('[value]', 'JSON, or a text; a secret is read from standard input instead')
    .option(
      '--confirm <keys>',
      'the settings with power over the machine that this changes, as it names them',
    )
    .action((key, value, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/config-change.ts')).set(context, key, value),
      ),
    )

const unsetVerb = () =>
  clientCommand('unset', 'Take one setting back to its default')
    .argument('<key>', 'like sandbox.concurrency')
    .option(
      '--confirm <keys>',
      'the settings with power over the machine that this changes, as it names them',
    )
    .action((key, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/config-change.ts')).unset(context, key),
      ),
    )

const editVerb = () =>
  clientCommand('edit', 'Open the file in an editor').action((options) =>
    runCommand(options, async (context) => (await import('../commands/config-file.ts')).edit(context)),
  )

const pathVerb = () =>
  clientCommand('path', 'Say where the file is').action((options) =>
    runCommand(options, async (context) => (await import('../commands/config-file.ts')).path(context)),
  )
