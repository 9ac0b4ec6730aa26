/** The command `supervise`, and the verb `drain` of `worker`: what runs beside a worker on its own machine. */
import { Command, Option } from '@commander-js/extra-typings'
import { SUPERVISOR_COMMAND_SECONDS_MAX, SUPERVISOR_SECONDS_MAX } from '../../protocol/limits.ts'
import { LOG_FORMATS, LOG_LEVELS } from '../log-options.ts'
import { parseCommandWords, parseFingerprintOption, parsePath, parseWholeNumber } from '../parse-option.ts'

const DATA_DIR = 'the worker’s data directory (default: SWITCHYARD_DATA_DIR, else the platform’s place)'
const CA_FILE = 'certificate (PEM) of an authority to trust besides those of the system'
const INSECURE = 'allow a line without encryption to another machine'

const seconds = <Flags extends string>(flags: Flags, what: string, preset: number, range: [number, number]) =>
  new Option(flags, what).default(preset).argParser((text) => parseWholeNumber(text, ...range))

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
    .addOption(
      new Option(
        '--start-command <words>',
        'with the driver command: starts the worker, or its machine (default: something else does)',
      ).argParser(parseCommandWords),
    )
    .addOption(
      new Option(
        '--stop-command <words>',
        'with the driver command: stops the worker; ends with 0 when the worker has ended',
      ).argParser(parseCommandWords),
    )
    .addOption(
      seconds('--command-seconds <n>', 'how long a start or stop command may take', 300, [
        1,
        SUPERVISOR_COMMAND_SECONDS_MAX,
      ]),
    )
    .addOption(seconds('--poll-seconds <n>', 'ask the host so often, give or take a fifth', 15, [1, 3_600]))
    .addOption(
      seconds('--idle-seconds <n>', 'stop a worker that was idle for so long', 300, [
        0,
        SUPERVISOR_SECONDS_MAX,
      ]),
    )
    .addOption(
      seconds('--up-seconds <n>', 'let a worker run for at least so long', 300, [0, SUPERVISOR_SECONDS_MAX]),
    )
    .option('--dry-run', 'say what would be done, and do nothing')
    .option('--data-dir <path>', DATA_DIR)
    .addOption(
      new Option(
        '--credential-file <path>',
        'the worker’s credential, or a copy of it (default: credential.json in the data directory)',
      ).argParser(parsePath),
    )
    .addOption(new Option('--ca-file <path>', CA_FILE).argParser(parsePath))
    .addOption(fingerprint())
    .addOption(hostUser())
    .option('--insecure', INSECURE)
    .addOption(new Option('--log-level <level>').choices(LOG_LEVELS).default('info' as const))
    .addOption(
      new Option('--log-format <format>', 'auto: for people on a terminal, JSON otherwise')
        .choices(LOG_FORMATS)
        .default('auto' as const),
    )
    .action(async (workerOptions, options) => {
      const { supervise } = await import('../commands/supervise.ts')
      await supervise(workerOptions, options)
    })

export const fingerprint = () =>
  new Option(
    '--fingerprint <sha256>',
    'accept only the host with this certificate or this key; no authority is needed then',
  ).argParser(parseFingerprintOption)

export const hostUser = () =>
  new Option(
    '--host-user <user>',
    'the user whose program a host on this machine is (default: this one, or root)',
  )

/** The verb `drain` of `worker`, for a unit's stop and a container's `preStop`. */
export const drainOwnVerb = () =>
  new Command('drain')
    .exitOverride()
    .description('Send this machine’s own worker no new runs, until it starts again')
    .option('--wait', 'until its runs and terminals have ended')
    .option('--timeout <time>', 'with --wait, give up after: 90s, 30m, 3d, or at an instant')
    .option('--data-dir <path>', DATA_DIR)
    .option('--host <url>', 'the host (default: the one that the worker was started with)')
    .addOption(new Option('--ca-file <path>', CA_FILE).argParser(parsePath))
    .addOption(fingerprint())
    .addOption(hostUser())
    .option('--insecure', INSECURE)
    .action(async (options) => {
      const { ownDrain } = await import('../commands/own-drain.ts')
      await ownDrain(options)
    })
