/** Which code host a configuration asks for, as people use it through the service. */

import type { Clock, Log } from '../../core/ports.ts'
import type { PullHost } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ClientPool } from '../http/client-types.ts'
import { githubApi } from './github/api.ts'
import { githubPullHost } from './github/pulls.ts'
import { localPullHost } from './local-pulls.ts'

export interface PullHostPorts {
  readonly couriers: ClientPool
  readonly clock: Clock
  readonly log: Log
}

export function pullHostFor(
  { codehost }: ServiceConfig,
  { couriers, clock, log }: PullHostPorts,
): Result<PullHost> {
  const { driver, apiUrl, token, path } = codehost
  if (driver === 'local') {
    if (path !== undefined && path !== '') return yes(localPullHost({ path, clock, log }))
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
  const api = githubApi({ apiUrl, token }, couriers)
  return api.ok ? yes(githubPullHost(api.value, clock)) : api
}
