/** The noun `join-keys` of `workers`. */
import { Option } from '@commander-js/extra-typings'
import { WORKERS_MAX } from '../../protocol/limits.ts'
import { runCommand } from '../client/run-command.ts'
import { parseWholeNumber } from '../parse-option.ts'
import { clientCommand } from './client-options.ts'

export const joinKeysCommand = () =>
  clientCommand('join-keys', 'Keys for many machines: list, create, delete')
    .action((options) =>
      runCommand(options, async (context) => (await import('../commands/join-keys.ts')).list(context)),
    )
    .addCommand(listVerb())
    .addCommand(createVerb())
    .addCommand(deleteVerb())

const listVerb = () =>
  clientCommand('list', 'Keys that machines join with').action((options) =>
    runCommand(options, async (context) => (await import('../commands/join-keys.ts')).list(context)),
  )

const createVerb = () =>
  clientCommand('create', 'Create a key that many machines join with')
    .argument('<name>', 'what the key is for')
    .option('--expires <time>', 'when it stops working: 12h, 30d, or an instant (default: never)')
    .addOption(
      new Option('--max-workers <n>', 'so many workers at once (default: any number)').argParser((text) =>
        parseWholeNumber(text, 1, WORKERS_MAX),
      ),
    )
    .option('--ephemeral', 'remove its workers by themselves after they left')
    .action((name, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/join-keys.ts')).create(context, name),
      ),
    )

const deleteVerb = () =>
  clientCommand('delete', 'Let no more machines join with a key')
    .argument('<key>', 'its id, or its name')
    .option('--workers', 'revoke the workers that joined with it, too')
    .action((key, options) =>
      runCommand(options, async (context) => (await import('../commands/join-keys.ts')).remove(context, key)),
    )
