/**
 * The command `worker`, and its verb `drain`; `worker.ts` composes the daemon, `create-executor.ts` its executor.
 *
 * What else runs beside a worker, such as the supervisor, finds its host by `resolve-host.ts` and `own-worker.ts`.
 */
import { resolve } from 'node:path'
import { Command, Option } from '@commander-js/extra-typings'
import { WORKER_CONCURRENCY_MAX, WORKER_IDLE_SECONDS_MAX } from '../../../protocol/limits.ts'
import { logFormat, logLevel } from '../../process/log-options.ts'
import { parsePath, parsePositive, wholeNumber } from '../../process/parse-option.ts'
import {
  caFile,
  fingerprint,
  hostUser,
  INSECURE,
  localRepos,
  privateCodeHost,
  takeOver,
  WORKER_DATA_DIR,
} from '../program-options.ts'

const WORKER_DRAIN_SECONDS_MAX = 7 * 24 * 3_600
const WORKER_STALL_MINUTES_MAX = 24 * 60

const path = <Flags extends string>(flags: Flags, what: string) =>
  new Option(flags, what).argParser(parsePath)

export const workerCommand = () =>
  new Command('worker')
    .exitOverride()
    // Otherwise options behind the verb would be its parent's.
    .enablePositionalOptions()
    .description('Execute runs for a host: dials out to it, and listens to nobody')
    .option(
      '--host <url>',
      'the host, like https://host.example:4401, or http://127.0.0.1:4400 on this machine',
    )
    .addOption(hostDataDir())
    .addOption(pairingToken())
    .addOption(
      path(
        '--join-key-file <path>',
        'a join key, for machines that nobody pairs one by one; used without a credential, and when the enrollment is gone',
      ),
    )
    .option('--name <name>', 'what the fleet calls this worker (default: the name of this machine)')
    .option(
      '--concurrency <n>',
      'runs at once (default: 2, and 1 with --once)',
      wholeNumber(1, WORKER_CONCURRENCY_MAX),
    )
    .option('--once', 'take one run, report it, and exit with 0')
    .option('--share-actors', 'let who inspects the host see the states of this worker’s actors')
    .option(
      '--idle-seconds <n>',
      'exit with 0 when for so long there was neither a run nor a terminal (default: stay)',
      wholeNumber(1, WORKER_IDLE_SECONDS_MAX),
    )
    .option(
      '--data-dir <path>',
      'where everything is kept (default: SWITCHYARD_DATA_DIR, else the platform’s place)',
    )
    .addOption(takeOver('worker'))
    .option(
      '--sandbox-dir <path>',
      'where sandboxes and copies of repositories lie (default: SWITCHYARD_SANDBOX_DIR, else the data directory; for root below /var/lib/switchyard when no other user can pass to that)',
    )
    .addOption(localRepos('outside sandboxes'))
    .addOption(privateCodeHost('outside sandboxes'))
    .addOption(
      path('--ca-file <path>', 'certificate (PEM) of an authority to trust besides those of the system'),
    )
    .addOption(fingerprint())
    .addOption(hostUser())
    .option('--insecure', 'allow a line without encryption to another machine')
    .option(
      '--drain-seconds <n>',
      'asked to stop, wait so long for running runs (default: until they are done)',
      wholeNumber(0, WORKER_DRAIN_SECONDS_MAX),
    )
    .addOption(
      new Option('--stall-minutes <n>', 'end an agent that says nothing for so long')
        .default(30)
        .argParser((text) => parsePositive(text, WORKER_STALL_MINUTES_MAX)),
    )
    .addOption(new Option('--end-with-stdin').hideHelp())
    .addOption(new Option('--drain-with-stdin').hideHelp())
    .addOption(logLevel())
    .addOption(logFormat())
    .action(async (options) => {
      const { worker } = await import('./worker.ts')
      await worker(options)
    })
    .addCommand(drainOwnVerb())

const hostDataDir = () =>
  new Option(
    '--host-data-dir <path>',
    'the data directory of a host of yours on this machine, instead of --host; its address is read there before each connection',
  ).argParser((text) => resolve(parsePath(text)))

const pairingToken = () =>
  path(
    '--token-file <path>',
    'a pairing token, needed once; the file is deleted when it is redeemed and the credential is on disk',
  )

/** The verb `drain` of `worker`, for a unit's stop and a container's `preStop`. */
const drainOwnVerb = () =>
  new Command('drain')
    .exitOverride()
    .description('Send this machine’s own worker no new runs, until it starts again')
    .option('--wait', 'until its runs and terminals have ended')
    .option('--timeout <time>', 'with --wait, give up after: 90s, 30m, 3d, or at an instant')
    .option('--data-dir <path>', WORKER_DATA_DIR)
    .option('--host <url>', 'the host (default: the one that the worker was started with)')
    .addOption(caFile())
    .addOption(fingerprint())
    .addOption(hostUser())
    .option('--insecure', INSECURE)
    .action(async (options) => {
      const { ownDrain } = await import('./own-drain.ts')
      await ownDrain(options)
    })
