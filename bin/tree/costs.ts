/** The noun `costs`. */
import { Option } from '@commander-js/extra-typings'
import { COST_GROUPS } from '../../protocol/cost-groups.ts'
import { runCommand } from '../client/run-command.ts'
import { clientCommand } from './client-options.ts'

export const costsCommand = () =>
  clientCommand('costs', 'What runs have cost')
    .addOption(
      new Option('--by <group>', 'what a row stands for').choices(COST_GROUPS).default('day' as const),
    )
    .option('--since <time>', 'only from then on: 90s, 30m, 3d, a date or an instant')
    .action((options) =>
      runCommand(options, async (context) => (await import('../commands/costs.ts')).costs(context)),
    )
