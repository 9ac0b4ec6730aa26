/** The commands that open pages: the dashboard and the inspector. */
import { Command, Option } from '@commander-js/extra-typings'
import { DASHBOARD_PORT, INSPECT_PORT, PORT_MAX } from '../../protocol/limits.ts'
import { parseWholeNumber } from '../parse-option.ts'
import { logFormat, logLevel } from './log-flags.ts'

export const dashboardCommand = () =>
  new Command('dashboard')
    .exitOverride()
    .description('Open the dashboard in a browser: what runs, what waits and why, what needs you')
    .option('--data-dir <path>', 'whose host is shown')
    .addOption(
      new Option('--port <n>', 'where to listen on this machine; 0 picks a free one')
        .default(DASHBOARD_PORT)
        .argParser((text) => parseWholeNumber(text, 0, PORT_MAX)),
    )
    .option('--no-open', 'print the link, and open no browser')
    .addOption(logLevel())
    .addOption(logFormat())
    .action(async (options) => {
      const { dashboard } = await import('../commands/dashboard.ts')
      await dashboard(options)
    })

export const inspectCommand = () =>
  new Command('inspect')
    .exitOverride()
    .description('Watch the actors of the host on their live state charts, or replay a recorded story')
    .argument('[story]', 'a file that was recorded: opened anywhere, with nothing running')
    .option('--data-dir <path>', 'whose host is watched')
    .option('--record <file>', 'write a story of what happens until Ctrl-C, and open no page')
    .addOption(
      new Option('--port <n>', 'where to listen on this machine; 0 picks a free one')
        .default(INSPECT_PORT)
        .argParser((text) => parseWholeNumber(text, 0, PORT_MAX)),
    )
    .option('--no-open', 'print the link, and open no browser')
    .addOption(logLevel())
    .addOption(logFormat())
    .action(async (story: string | undefined, options) => {
      const { inspect } = await import('../commands/inspect.ts')
      await inspect(story, options)
    })
