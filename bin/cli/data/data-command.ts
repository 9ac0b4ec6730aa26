/**
 * The commands `audit` and `check-data`, programs of their own that read a data directory.
 *
 * Whatever needs the store or its database without a host lives here, and nothing that asks a host.
 */
import { Option } from '@commander-js/extra-typings'
import { SOURCES } from '../../../protocol/audit.ts'
import { LIST_LIMIT_MAX } from '../../../protocol/limits.ts'
import { wholeNumber } from '../../process/parse-option.ts'
import { clientCommand } from '../command/client-options.ts'

export const auditCommand = () =>
  clientCommand('audit', 'Show who did what from which source, and prove that nothing is missing')
    .option('--limit <n>', 'how many of the newest actions (default: 50)', wholeNumber(1, LIST_LIMIT_MAX))
    .addOption(new Option('--source <source>', 'only what came from this source').choices(SOURCES))
    .option('--verify', 'check the chain of hashes instead, and name each break')
    .option('--head <hash>', 'check that the entry with this hash is still there')
    .action(async (options) => {
      const { audit } = await import('./audit.ts')
      await audit(options)
    })

export const checkDataCommand = () =>
  clientCommand('check-data', 'Check a data directory and name what is damaged')
    .argument('[target]', 'a data directory, or a copy of its folder state (default: that of the host)')
    .option('--set-aside', 'put what is intact in the place of a damaged database, while no host runs')
    .action(async (target, options) => {
      const { checkData } = await import('./check-data.ts')
      await checkData(target, options)
    })
