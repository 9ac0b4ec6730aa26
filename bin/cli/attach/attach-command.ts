/**
 * The command `attach`; `attach.ts` is the place to begin.
 *
 * This folder has everything about the person's terminal in a session. The session itself is `client/attachment.ts`.
 */
import { Command } from '@commander-js/extra-typings'
import { DEFAULT_DETACH_KEYS } from './detach-keys.ts'

export const attachCommand = () =>
  new Command('attach')
    .exitOverride()
    .description('Open the session of a finished run in this terminal')
    .argument('<run>', 'a run, or its ticket')
    .option('--data-dir <path>', 'whose host is asked')
    .option('--detach-keys <keys>', 'what ends it, one key after the other', DEFAULT_DETACH_KEYS)
    .option('--keep', 'on detaching, leave the sandbox running until nobody has looked at it for a while')
    .option(
      '--no-tty',
      'pass standard input and output on as they are, without a terminal; the end of the input is passed on as Ctrl-D',
    )
    .addHelpText(
      'after',
      `
It ends with the session's own exit code, 0 when you detach, 1 when there is no session for you, 69 without a host.

Environment:
  SWITCHYARD_URL, SWITCHYARD_TOKEN_FILE, SWITCHYARD_HOST_USER
                           another host than that of the data directory`,
    )
    .action(async (name, options) => {
      const { attach } = await import('./attach.ts')
      await attach(name, options)
    })
