/** The command `check-data`, a program of its own. */
import { clientCommand } from './client-options.ts'

export const checkDataCommand = () =>
  clientCommand('check-data', 'Check a data directory and name what is damaged')
    .argument('[target]', 'a data directory, or a copy of its folder state (default: that of the host)')
    .option('--set-aside', 'put what is intact in the place of a damaged database, while no host runs')
    .action(async (target, options) => {
      const { checkData } = await import('../commands/check-data.ts')
      await checkData(target, options)
    })
