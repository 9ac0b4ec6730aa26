/**
 * The command `serve`; `serve.ts` composes the host, `open-server.ts` opens its listeners.
 *
 * Parts are made and connected here. No rule and no request of a client lives here.
 */
import { Command, Option } from '@commander-js/extra-typings'
import { DASHBOARD_PORT, INSPECT_PORT, PORT_MAX } from '../../../protocol/limits.ts'
import { logFormat, logLevel } from '../../process/log-options.ts'
import { parseWholeNumber } from '../../process/parse-option.ts'
import { localRepos, privateCodeHost, takeOver } from '../program-options.ts'

const port = <Flags extends string>(flags: Flags, what: string, key: string) =>
  new Option(flags, `${what}; 0 picks a free one (default: ${key})`).argParser((text) =>
    parseWholeNumber(text, 0, PORT_MAX),
  )

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
      const { serve } = await import('./serve.ts')
      await serve(options)
    })
