/** The command `oauth-helper`; `oauth-helper.ts` composes the service, which is the folder `oauth-helper/`. */
import { Command } from '@commander-js/extra-typings'
import { PORT_MAX } from '../../../protocol/limits.ts'
import { logFormat, logLevel } from '../../process/log-options.ts'
import { wholeNumber } from '../../process/parse-option.ts'

const HELPER_PORT = 4410
/** Requests per client address, also as a burst. A device that waits for a person polls 12 times a minute. */
const HELPER_REQUESTS_PER_MINUTE = 60
const HELPER_REQUESTS_PER_MINUTE_MAX = 1_000_000
/** Load balancers in a row in front of the helper. */
const HELPER_PROXIES_MAX = 8

export const oauthHelperCommand = () =>
  new Command('oauth-helper')
    .exitOverride()
    .description(
      'Run the small public service that holds the client ids and the secret for connecting accounts',
    )
    .option('--host <address>', 'where to listen', '127.0.0.1')
    .option('--port <n>', 'where to listen; 0 picks a free one', wholeNumber(0, PORT_MAX), HELPER_PORT)
    .option(
      '--trust-proxy <n>',
      'so many balancers stand before it, and the addresses that they put into X-Forwarded-For count',
      wholeNumber(0, HELPER_PROXIES_MAX),
      0,
    )
    .option(
      '--requests-per-minute <n>',
      'of one client address',
      wholeNumber(1, HELPER_REQUESTS_PER_MINUTE_MAX),
      HELPER_REQUESTS_PER_MINUTE,
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
      const { oauthHelper } = await import('./oauth-helper.ts')
      await oauthHelper(options)
    })
