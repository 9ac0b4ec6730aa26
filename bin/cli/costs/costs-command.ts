/**
 * The command `costs`; `costs.ts` is the place to begin.
 *
 * This folder adds up what was spent, also for `status`, `top` and `mcp`. The prices are a rule of `core/`.
 */
import { Option } from '@commander-js/extra-typings'
import { COST_GROUPS } from '../../../protocol/cost-groups.ts'
import { clientCommand } from '../command/client-options.ts'
import { clientAction } from '../command/run-command.ts'

const loadCosts = () => import('./costs.ts')

export const costsCommand = () =>
  clientCommand('costs', 'What runs have cost')
    .addOption(
      new Option('--by <group>', 'what a row stands for').choices(COST_GROUPS).default('day' as const),
    )
    .option('--since <time>', 'only from then on: 90s, 30m, 3d, a date or an instant')
    .action(clientAction(loadCosts, ({ costs }, context) => costs(context)))
