/** The command `supervise`; `supervise.ts` composes the supervisor, whose rules are in `core/fleet/`. */
import { Command, Option } from '@commander-js/extra-typings'
import { logFormat, logLevel } from '../../process/log-options.ts'
import { parseCommandWords, parsePath, wholeNumber } from '../../process/parse-option.ts'
import { caFile, fingerprint, hostUser, INSECURE, WORKER_DATA_DIR } from '../program-options.ts'

/** The longest interval, idle time and uptime that options may set. */
const SUPERVISOR_SECONDS_MAX = 604_800
const SUPERVISOR_COMMAND_SECONDS_MAX = 3_600

export const superviseCommand = () =>
  new Command('supervise')
    .exitOverride()
    .description('Stop an idle worker and start it when there is work, without ever ending a run')
    .argument('[worker-options...]', 'after --: options of the worker that the driver process starts')
    .option('--host <url>', 'the host, as for the worker')
    .addOption(
      new Option(
        '--driver <driver>',
        'process: run the worker as a child; command: start and stop it by two commands',
      )
        .choices(['process', 'command'] as const)
        .default('process' as const),
    )
    .option(
      '--start-command <words>',
      'with the driver command: starts the worker, or its machine (default: something else does)',
      parseCommandWords,
    )
    .option(
      '--stop-command <words>',
      'with the driver command: stops the worker; ends with 0 when the worker has ended',
      parseCommandWords,
    )
    .option(
      '--command-seconds <n>',
      'how long a start or stop command may take',
      wholeNumber(1, SUPERVISOR_COMMAND_SECONDS_MAX),
      300,
    )
    .option('--poll-seconds <n>', 'ask the host so often, give or take a fifth', wholeNumber(1, 3_600), 15)
    .option(
      '--idle-seconds <n>',
      'stop a worker that was idle for so long',
      wholeNumber(0, SUPERVISOR_SECONDS_MAX),
      300,
    )
    .option(
      '--up-seconds <n>',
      'let a worker run for at least so long',
      wholeNumber(0, SUPERVISOR_SECONDS_MAX),
      300,
    )
    .option('--dry-run', 'say what would be done, and do nothing')
    .option('--data-dir <path>', WORKER_DATA_DIR)
    .option(
      '--credential-file <path>',
      'the worker’s credential, or a copy of it (default: credential.json in the data directory)',
      parsePath,
    )
    .addOption(caFile())
    .addOption(fingerprint())
    .addOption(hostUser())
    .option('--insecure', INSECURE)
    .addOption(logLevel())
    .addOption(logFormat())
    .action(async (workerOptions, options) => {
      const { supervise } = await import('./supervise.ts')
      await supervise(workerOptions, options)
    })
