/**
 * The commands `api`, `paths` and `version`: one request as it is, and two that need no host.
 * The code of all three is in `api.ts`. A command with words of its own for people has its own folder.
 */
import { Argument } from '@commander-js/extra-typings'
import { clientCommand } from '../command/client-options.ts'
import { clientAction } from '../command/run-command.ts'

const loadApi = () => import('./api.ts')

export const apiCommand = () =>
  clientCommand('api', 'Send one request to the host')
    .addArgument(new Argument('<method>').choices(['GET', 'POST', 'PUT', 'DELETE']))
    .argument('<path>', 'like /api/runs?limit=3')
    .option('--body <json>', 'sent as JSON; - reads standard input')
    .action(clientAction(loadApi, ({ api }, context, method, path) => api(context, method, path)))

export const pathsCommand = () =>
  clientCommand('paths', 'Say where files are').action(
    clientAction(loadApi, ({ paths }, context) => paths(context)),
  )

export const versionCommand = () =>
  clientCommand('version', 'Say which version this is').action(
    clientAction(loadApi, ({ version }, context) => version(context)),
  )
