/**
 * The command `init`, a program of its own; `init.ts` is the place to begin.
 *
 * This folder asks, plans and writes a first configuration. Later changes are `config set` in `settings/`.
 */
import { Option } from '@commander-js/extra-typings'
import { TRACKER_DRIVERS } from '../../../protocol/drivers.ts'
import { clientCommand } from '../command/client-options.ts'
import { clientAction } from '../command/run-command.ts'

const loadInit = () => import('./init.ts')

export const initCommand = () =>
  clientCommand('init', 'Ask, then write a first configuration')
    .addOption(new Option('--tracker <driver>', 'where tickets come from').choices(TRACKER_DRIVERS))
    .option('--repo <owner/name>', 'the repository; else that of the checkout in the current folder')
    .option('--label <name>', 'tickets with this label start')
    .option('--all-open', 'all open tickets start')
    .option('--folder <path>', 'the folder of the tickets of the tracker local')
    .action(clientAction(loadInit, ({ init }, context) => init(context)))
