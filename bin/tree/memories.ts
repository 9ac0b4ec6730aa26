/** The noun `memories`. */
import { runCommand } from '../client/run-command.ts'
import { clientCommand } from './client-options.ts'

export const memoriesCommand = () =>
  clientCommand('memories', 'What runs have learnt')
    .action((options) =>
      runCommand(options, async (context) => (await import('../commands/memories.ts')).list(context)),
    )
    .addCommand(
      clientCommand('list', 'Facts by repository, newest first')
        .option('--repo <repo>', 'only those of one repository: its key, or owner/name')
        .action((options) =>
          runCommand(options, async (context) => (await import('../commands/memories.ts')).list(context)),
        ),
    )
    .addCommand(
      clientCommand('keep', 'Tell later runs of a new fact')
        .argument('<id>')
        .action((id, options) =>
          runCommand(options, async (context) => (await import('../commands/memories.ts')).keep(context, id)),
        ),
    )
    .addCommand(
      clientCommand('forget', 'Delete one fact')
        .argument('<id>')
        .action((id, options) =>
          runCommand(options, async (context) =>
            (await import('../commands/memories.ts')).forget(context, id),
          ),
        ),
    )
    .addCommand(
      clientCommand('clear', 'Delete all facts of one repository')
        .requiredOption('--repo <repo>', 'its key, or owner/name')
        .action((options) =>
          runCommand(options, async (context) => (await import('../commands/memories.ts')).clear(context)),
        ),
    )
