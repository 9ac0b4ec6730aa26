/** The commands that are programs of their own: the host, a worker, the example, the tools of an agent, the OAuth helper. */
import { resolve } from 'node:path'
import { Command, Option } from '@commander-js/extra-typings'
import {
  DASHBOARD_PORT,
  HELPER_PORT,
  HELPER_PROXIES_MAX,
  HELPER_REQUESTS_PER_MINUTE,
  HELPER_REQUESTS_PER_MINUTE_MAX,
  INSPECT_PORT,
  PORT_MAX,
  WORKER_CONCURRENCY_MAX,
  WORKER_DRAIN_SECONDS_MAX,
  WORKER_IDLE_SECONDS_MAX,
  WORKER_STALL_MINUTES_MAX,
} from '../../protocol/limits.ts'
import {
  parseFolder,
  parsePath,
  parsePositive,
  parsePrivateHost,
  parseTakeOver,
  parseWholeNumber,
} from '../parse-option.ts'
import { logFormat, logLevel } from './log-flags.ts'
import { drainOwnVerb, fingerprint, hostUser } from './supervise.ts'

const port = <Flags extends string>(flags: Flags, what: string, key: string) =>
  new Option(flags, `${what}; 0 picks a free one (default: ${key})`).argParser((text) =>
    parseWholeNumber(text, 0, PORT_MAX),
  )
const path = <Flags extends string>(flags: Flags, what: string) =>
  new Option(flags, what).argParser(parsePath)
const localRepos = (whose: string) =>
  new Option(
    '--local-repos <path>',
    `a folder below which git ${whose} may use repositories of this machine; repeatable`,
  )
    .default([] as readonly string[], 'none')
    .argParser((text, earlier: readonly string[]) => [...earlier, parseFolder(text)])
const privateCodeHost = (whose: string) =>
  new Option(
    '--private-code-host <host[:port]>',
    `a code host that git ${whose} may contact at a private address or another port; repeatable`,
  )
    .default([] as readonly string[], 'none')
    .argParser((text, earlier: readonly string[]) => [...earlier, parsePrivateHost(text)])

const takeOver = (what: string) =>
  new Option(
    '--take-over [word]',
    `your word that the ${what} of another machine or container that owns the data directory has ended for good; ` +
      '"exclusive-volume" is the word of a recipe in which one machine at a time can have the volume',
  )
    .preset('by-hand')
    .argParser(parseTakeOver)

export const serveCommand = () =>
  new Command('serve')
    .exitOverride()
    .description('Run the host: queue, leases, management API and dashboard socket on this machine')
    .addOption(
      new Option(
        '--data-dir <path>',
        'where everything is kept (default: SWITCHYARD_DATA_DIR, else the platform’s place)',
      ),
    )
    .addOption(takeOver('host'))
    .addOption(port('--port <n>', 'the port of the API for this start', 'server.port'))
    .addOption(
      port('--fleet-port <n>', 'the port for workers of other machines for this start', 'fleet.port'),
    )
    .option('--dashboard', 'serve the dashboard’s page too, and print its link')
    .addOption(
      port('--dashboard-port <n>', 'the port of that page', String(DASHBOARD_PORT)).implies({
        dashboard: true,
      }),
    )
    .addOption(
      new Option('--inspect [port]', 'serve the inspector of all actors too, and print its link')
        .preset(INSPECT_PORT)
        .argParser((text) => parseWholeNumber(text, 0, PORT_MAX)),
    )
    .option('--no-local-worker', 'run no worker in this start, whatever worker.local says')
    .addOption(localRepos('of the host’s own worker'))
    .addOption(privateCodeHost('of the host’s own worker'))
    .addOption(new Option('--end-with-stdin').hideHelp())
    .addOption(logLevel())
    .addOption(logFormat())
    .action(async (options) => {
      const { serve } = await import('../commands/serve.ts')
      await serve(options)
    })

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
    .addOption(
      new Option('--concurrency <n>', 'runs at once (default: 2, and 1 with --once)').argParser((text) =>
        parseWholeNumber(text, 1, WORKER_CONCURRENCY_MAX),
      ),
    )
    .option('--once', 'take one run, report it, and exit with 0')
    .option('--share-actors', 'let who inspects the host see the states of this worker’s actors')
    .addOption(
      new Option(
        '--idle-seconds <n>',
        'exit with 0 when for so long there was neither a run nor a terminal (default: stay)',
      ).argParser((text) => parseWholeNumber(text, 1, WORKER_IDLE_SECONDS_MAX)),
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
    .addOption(
      new Option(
        '--drain-seconds <n>',
        'asked to stop, wait so long for running runs (default: until they are done)',
      ).argParser((text) => parseWholeNumber(text, 0, WORKER_DRAIN_SECONDS_MAX)),
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
      const { worker } = await import('../commands/worker.ts')
      await worker(options)
    })
    .addCommand(drainOwnVerb())

export const oauthHelperCommand = () =>
  new Command('oauth-helper')
    .exitOverride()
    .description(
      'Run the small public service that holds the client ids and the secret for connecting accounts',
    )
    .option('--host <address>', 'where to listen', '127.0.0.1')
    .addOption(
      new Option('--port <n>', 'where to listen; 0 picks a free one')
        .default(HELPER_PORT)
        .argParser((text) => parseWholeNumber(text, 0, PORT_MAX)),
    )
    .addOption(
      new Option(
        '--trust-proxy <n>',
        'so many balancers stand before it, and the addresses that they put into X-Forwarded-For count',
      )
        .default(0)
        .argParser((text) => parseWholeNumber(text, 0, HELPER_PROXIES_MAX)),
    )
    .addOption(
      new Option('--requests-per-minute <n>', 'of one client address')
        .default(HELPER_REQUESTS_PER_MINUTE)
        .argParser((text) => parseWholeNumber(text, 1, HELPER_REQUESTS_PER_MINUTE_MAX)),
    )
    .option('--docs-url <url>', 'the link that its index gives to people who wonder what it is', '/')
    .addOption(logLevel())
    .addOption(logFormat())
    .addHelpText(
      'after',
      `
Environment:
  CODEHOST_CLIENT_ID, TRACKER_CLIENT_ID, TRACKER_CLIENT_SECRET
                           required; each may be given as a file instead, named by …_FILE
  SWITCHYARD_TRACKER_URL, SWITCHYARD_CODEHOST_URL
                           other addresses of the two services`,
    )
    .action(async (options) => {
      const { oauthHelper } = await import('../commands/oauth-helper.ts')
      await oauthHelper(options)
    })

export const quickstartCommand = () =>
  new Command('quickstart')
    .exitOverride()
    .description(
      'Turn three example tickets into three pull requests, on this machine and without an account',
    )
    .option(
      '--data-dir <path>',
      'the example’s own folder (default: SWITCHYARD_DATA_DIR, else the platform’s place)',
    )
    .option('--keep', 'go on serving when they are done, until Ctrl-C (default: on a terminal)')
    .option('--no-keep', 'end when they are done (default: in a pipe)')
    .addOption(new Option('--no-heading').hideHelp())
    .option('--json', 'the runs’ records on standard output, the story on standard error')
    .action(async (options) => {
      const { quickstart } = await import('../commands/quickstart.ts')
      await quickstart(options)
    })

export const mcpCommand = () =>
  new Command('mcp')
    .exitOverride()
    .description('Serve tools to an agent in an editor, by the Model Context Protocol over standard input')
    .option('--data-dir <path>', 'whose host is asked')
    .option('--write', 'also offer tools that change something')
    .option('--merge', 'also offer to merge pull requests')
    .option('--instruct', 'let calls speak to the agents of runs as the operator does')
    .action(async (options) => {
      const { mcp } = await import('../commands/mcp.ts')
      await mcp(options)
    })
