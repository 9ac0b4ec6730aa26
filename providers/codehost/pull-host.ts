/** Creates the code host that the configuration names, for the pull request pages of the dashboard. */

import type { Clock, Log } from '../../core/ports.ts'
import type { PullRequestApi } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ClientPool } from '../http/client-types.ts'
import { createGithubApi } from './github/api.ts'
import { createGithubPullHost } from './github/pulls.ts'
import { createLocalPullHost } from './local/pulls.ts'

export interface PullHostPorts {
  readonly clients: ClientPool
  readonly clock: Clock
  readonly log: Log
}

export function createPullHost(
  { codehost }: ServiceConfig,
  { clients, clock, log }: PullHostPorts,
): Result<PullRequestApi> {
  const { driver, apiUrl, token, path } = codehost
  if (driver === 'local') {
    if (path !== undefined && path !== '') return yes(createLocalPullHost({ path, clock, log }))
    return no(
      'invalid',
      'the code host is not connected; set codehost.path to the folder of its repositories',
    )
  }
  if (token === undefined || token === '') {
    return no(
      'invalid',
      'the code host is not connected; connect GitHub, or give it a token as codehostToken',
    )
  }
  const api = createGithubApi({ apiUrl, token }, clients)
  return api.ok ? yes(createGithubPullHost(api.value, clock)) : api
}
