/** The options that every client command takes. */
import { Command, Option } from '@commander-js/extra-typings'
import { COLOR_CHOICES } from '../../output/colors.ts'
import { PRINT_FORMATS } from '../../output/output.ts'

/** A command with these options; its own ones follow. @param usage the name and the arguments */
export function clientCommand<const Usage extends string>(usage: Usage, summary: string) {
  return (
    new Command(usage)
      .description(summary)
      .exitOverride()
      // Otherwise a noun would take the options that stand behind its verb.
      .enablePositionalOptions()
      .option('--json', 'print the API’s own records')
      .addOption(new Option('-o, --output <format>', 'how records are printed').choices(PRINT_FORMATS))
      .option('--data-dir <path>', 'whose host is asked')
      .option('--host-user <user>', 'whose program the host of SWITCHYARD_URL is (default: yours)')
      .addOption(new Option('--color <when>', 'when colours are used').choices(COLOR_CHOICES))
      .option('--yes', 'go on without a question where something is destroyed')
      .option('--quiet', 'print no notes')
      .option('--debug', 'say more about errors')
  )
}
