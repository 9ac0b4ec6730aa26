/**
 * The noun `service`: host and worker as services of this user. `service-install.ts` is the place to begin.
 *
 * Managers are `systemd.ts` and `launchd.ts`, behind `service-manager.ts`. What a started program tells them is in `process/`.
 */
import { Option } from '@commander-js/extra-typings'
import { clientCommand } from '../command/client-options.ts'
import { clientAction } from '../command/run-command.ts'

const loadServiceInstall = () => import('./service-install.ts')

const load = () => import('./service.ts')

export const serviceCommand = () =>
  clientCommand('service', 'Start host and worker at login')
    .action(clientAction(load, ({ status }, context) => status(context)))
    .addCommand(
      clientCommand('install', 'Start the host and its worker now and at each login')
        .addOption(
          new Option('--one', 'one service: the host runs its worker itself, which ends with it').implies({
            isSingle: true,
          }),
        )
        .option('--dry-run', 'print the files and the commands, and change nothing')
        .action(clientAction(loadServiceInstall, ({ serviceInstall }, context) => serviceInstall(context))),
    )
    .addCommand(
      clientCommand('status', 'Say whether it runs, and since when').action(
        clientAction(load, ({ status }, context) => status(context)),
      ),
    )
    .addCommand(
      clientCommand('uninstall', 'Stop host and worker, and remove the services; all data stays').action(
        clientAction(load, ({ uninstall }, context) => uninstall(context)),
      ),
    )
