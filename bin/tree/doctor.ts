/** The command `doctor`, a program of its own. */
import { clientCommand } from './client-options.ts'

export const doctorCommand = () =>
  clientCommand('doctor', 'Check this machine and name each cure')
    .option('--all', 'show each finding, also those that are in order')
    .option('--fix', 'mend what can be mended safely, then check again')
    .option('--bundle <file>', 'write a new archive for a bug report, without secrets')
    .action(async (options) => {
      const { doctor } = await import('../commands/doctor.ts')
      await doctor(options)
    })
