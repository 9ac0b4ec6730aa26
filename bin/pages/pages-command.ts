/** The commands that open pages: the dashboard and the inspector. */
import { Command } from '@commander-js/extra-typings'
import { DASHBOARD_PORT, INSPECT_PORT, PORT_MAX } from '../../protocol/limits.ts'
import { logFormat, logLevel } from '../process/log-options.ts'
import { wholeNumber } from '../process/parse-option.ts'

export const dashboardCommand = () =>
  new Command('dashboard')
    .exitOverride()
    .description('Open the dashboard in a browser: what runs, what waits and why, what needs you')
    .option('--data-dir <path>', 'whose host is shown')
    .option(
      '--port <n>',
      'where to listen on this machine; 0 picks a free one',
      wholeNumber(0, PORT_MAX),
      DASHBOARD_PORT,
    )
    .option('--no-open', 'print the link, and open no browser')
    .addOption(logLevel())
    .addOption(logFormat())
    .action(async (options) => {
      const { dashboard } = await import('./serve-page.ts')
      await dashboard(options)
    })

export const inspectCommand = () =>
  new Command('inspect')
    .exitOverride()
    .description('Watch the actors of the host on their live state charts, or replay a recorded story')
    .argument('[story]', 'a file that was recorded: opened anywhere, with nothing running')
    .option('--data-dir <path>', 'whose host is watched')
    .option('--record <file>', 'write a story of what happens until Ctrl-C, and open no page')
    .option(
      '--port <n>',
      'where to listen on this machine; 0 picks a free one',
      wholeNumber(0, PORT_MAX),
      INSPECT_PORT,
    )
    .option('--no-open', 'print the link, and open no browser')
    .addOption(logLevel())
    .addOption(logFormat())
    .action(async (story: string | undefined, options) => {
      const { inspect } = await import('./inspect.ts')
      await inspect(story, options)
    })
