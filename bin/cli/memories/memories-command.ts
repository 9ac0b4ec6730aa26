/** The noun `memories`; its verbs are in `memories.ts`. */
import { clientCommand } from '../command/client-options.ts'
import { clientAction } from '../command/run-command.ts'

const load = () => import('./memories.ts')

export const memoriesCommand = () =>
  clientCommand('memories', 'What runs have learnt')
    .action(clientAction(load, (memories, context) => memories.list(context)))
    .addCommand(
      clientCommand('list', 'Facts by repository, newest first')
        .option('--repo <repo>', 'only those of one repository: its key, or owner/name')
        .action(clientAction(load, (memories, context) => memories.list(context))),
    )
    .addCommand(
      clientCommand('keep', 'Tell later runs of a new fact')
        .argument('<id>')
        .action(clientAction(load, (memories, context, id) => memories.keep(context, id))),
    )
    .addCommand(
      clientCommand('forget', 'Delete one fact')
        .argument('<id>')
        .action(clientAction(load, (memories, context, id) => memories.forget(context, id))),
    )
    .addCommand(
      clientCommand('clear', 'Delete all facts of one repository')
        .requiredOption('--repo <repo>', 'its key, or owner/name')
        .action(clientAction(load, (memories, context) => memories.clear(context))),
    )
