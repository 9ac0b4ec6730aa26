/**
 * The command `quickstart`; `quickstart.ts` is the place to begin.
 *
 * The example is a client of a host that it starts itself. Nothing else uses these files.
 */
import { Command, Option } from '@commander-js/extra-typings'

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
      const { quickstart } = await import('./quickstart.ts')
      await quickstart(options)
    })
