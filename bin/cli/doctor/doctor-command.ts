/**
 * The command `doctor`, a program of its own; `doctor.ts` is the place to begin, and lists all checks.
 *
 * A check is a row of one of the files `*-checks.ts`, and looks at an `ExaminedMachine`. No check changes anything.
 */
import { clientCommand } from '../command/client-options.ts'

export const doctorCommand = () =>
  clientCommand('doctor', 'Check this machine and name each cure')
    .option('--all', 'show each finding, also those that are in order')
    .option('--fix', 'mend what can be mended safely, then check again')
    .option('--bundle <file>', 'write a new archive for a bug report, without secrets')
    .action(async (options) => {
      const { doctor } = await import('./doctor.ts')
      await doctor(options)
    })
