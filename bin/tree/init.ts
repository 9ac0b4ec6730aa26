/** The command `init`. */
import { Option } from '@commander-js/extra-typings'
import { TRACKER_DRIVERS } from '../../protocol/drivers.ts'
import { runCommand } from '../client/run-command.ts'
import { clientCommand } from './client-options.ts'

export const initCommand = () =>
  clientCommand('init', 'Ask, then write a first configuration')
    .addOption(new Option('--tracker <driver>', 'where tickets come from').choices(TRACKER_DRIVERS))
    .option('--repo <owner/name>', 'the repository; else that of the checkout in the current folder')
    .option('--label <name>', 'tickets with this label start')
    .option('--all-open', 'all open tickets start')
    .option('--folder <path>', 'the folder of the tickets of the tracker local')
    .action((options) =>
      runCommand(options, async (context) => (await import('../commands/init.ts')).init(context)),
    )
