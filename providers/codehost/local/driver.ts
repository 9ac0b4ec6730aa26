/** The driver of bare repositories in a folder. */
import { resolve } from 'node:path'
import { no, yes } from '../../../core/result.ts'
import type { CodeHostDriver } from '../code-host-driver.ts'
import { createLocalCodeHost } from './code-host.ts'
import { createLocalPullHost, parseLocalPullUrl } from './pulls.ts'

const NO_FOLDER = no(
  'invalid',
  'codehost.path: the local code host needs the folder that holds its repositories',
)
const NOT_CONNECTED = no(
  'invalid',
  'the code host is not connected; set codehost.path to the folder of its repositories',
)
const NO_ACCOUNT = no('invalid', 'the code host is a folder on this machine, which needs no account')

export const localCodeHostDriver: CodeHostDriver = {
  createCodeHost: ({ path = '' }, _token, { clock }) =>
    path === '' ? NO_FOLDER : yes(createLocalCodeHost({ path, clock })),
  createPullHost: ({ path = '' }, { clock, log }) =>
    path === '' ? NOT_CONNECTED : yes(createLocalPullHost({ path, clock, log })),
  parsePullUrl: ({ path = '' }, url) => (path === '' ? undefined : parseLocalPullUrl(resolve(path), url)),
  checkAccount: async () => NO_ACCOUNT,
  // Every user who may write the folder may push.
  mayPush: async () => yes(true),
  deviceFlow: NO_ACCOUNT,
}
