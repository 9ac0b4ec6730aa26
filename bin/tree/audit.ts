/** The command `audit`, a program of its own. */
import { Option } from '@commander-js/extra-typings'
import { SOURCES } from '../../protocol/audit.ts'
import { LIST_LIMIT_MAX } from '../../protocol/limits.ts'
import { parseWholeNumber } from '../parse-option.ts'
import { clientCommand } from './client-options.ts'

export const auditCommand = () =>
  clientCommand('audit', 'Show who did what from which source, and prove that nothing is missing')
    .addOption(
      new Option('--limit <n>', 'how many of the newest actions (default: 50)').argParser((text) =>
        parseWholeNumber(text, 1, LIST_LIMIT_MAX),
      ),
    )
    .addOption(new Option('--source <source>', 'only what came from this source').choices(SOURCES))
    .option('--verify', 'check the chain of hashes instead, and name each break')
    .option('--head <hash>', 'check that the entry with this hash is still there')
    .action(async (options) => {
      const { audit } = await import('../commands/audit.ts')
      await audit(options)
    })
