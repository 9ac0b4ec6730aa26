/** The noun `service`: host and worker as services of this user. */
import { Option } from '@commander-js/extra-typings'
import { runCommand } from '../client/run-command.ts'
import { clientCommand } from './client-options.ts'

const load = () => import('../commands/service.ts')

export const serviceCommand = () =>
  clientCommand('service', 'Start host and worker at login')
    .action((options) => runCommand(options, async (context) => (await load()).status(context)))
    .addCommand(
      clientCommand('install', 'Start the host and its worker now and at each login')
        .addOption(
          new Option('--one', 'one service: the host runs its worker itself, which ends with it').implies({
            isSingle: true,
          }),
        )
        .option('--dry-run', 'print the files and the commands, and change nothing')
        .action((options) =>
          runCommand(options, async (context) =>
            (await import('../commands/service-install.ts')).serviceInstall(context),
          ),
        ),
    )
    .addCommand(
      clientCommand('status', 'Say whether it runs, and since when').action((options) =>
        runCommand(options, async (context) => (await load()).status(context)),
      ),
    )
    .addCommand(
      clientCommand('uninstall', 'Stop host and worker, and remove the services; all data stays').action(
        (options) => runCommand(options, async (context) => (await load()).uninstall(context)),
      ),
    )
