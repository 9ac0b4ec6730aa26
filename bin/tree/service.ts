/** The noun `service`: the host as a service of this user. */
import { runCommand } from '../client/run-command.ts'
import { clientCommand } from './client-options.ts'

const load = () => import('../commands/service.ts')

export const serviceCommand = () =>
  clientCommand('service', 'Start the host at login')
    .action((options) => runCommand(options, async (context) => (await load()).status(context)))
    .addCommand(
      clientCommand('install', 'Start the host now and at each login')
        .option('--dry-run', 'print the file and the commands, and change nothing')
        .action((options) => runCommand(options, async (context) => (await load()).install(context))),
    )
    .addCommand(
      clientCommand('status', 'Say whether it runs, and since when').action((options) =>
        runCommand(options, async (context) => (await load()).status(context)),
      ),
    )
    .addCommand(
      clientCommand('uninstall', 'Stop the host, and remove the service; all data stays').action((options) =>
        runCommand(options, async (context) => (await load()).uninstall(context)),
      ),
    )
