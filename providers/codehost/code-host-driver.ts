/**
 * CodeHostDriver defines one kind of code host: for jobs, for the pull requests that people see, and how to connect it.
 *
 * Each driver has a folder here with its definition in `driver.ts`; `registry.ts` lists the definitions.
 */

import type { DeviceAuthorization, DevicePollResult } from '../../core/ports/accounts.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { CodeHost, PullReference, PullRequestApi } from '../../core/ports/code-host.ts'
import type { Log } from '../../core/ports/log.ts'
import { no, type Result } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { JobCodehost } from '../../protocol/frames.ts'
import type { ClientPool } from '../http/client-types.ts'
import type { Http } from '../http/http-types.ts'

export interface CodeHostDriver {
  /** Creates the code host of a job, with the token that the job carries. */
  createCodeHost(codehost: JobCodehost, token: string | undefined, ports: CodeHostPorts): Result<CodeHost>
  /** Creates the code host for the pull requests that people see. */
  createPullHost(codehost: ServiceConfig['codehost'], ports: PullHostPorts): Result<PullRequestApi>
  /** Returns the pull request that this URL points to; needs neither a token nor a request. */
  parsePullUrl(codehost: ServiceConfig['codehost'], url: string): PullReference | undefined
  /** Checks the code host's token and returns its owner. */
  checkAccount(codehost: ServiceConfig['codehost'], clients: ClientPool): Promise<Result<string>>
  /** Asks whether the token may push branches to a repository. */
  mayPush(codehost: ServiceConfig['codehost'], remote: string, clients: ClientPool): Promise<Result<boolean>>
  /** The OAuth device flow, or why this code host has none. */
  readonly deviceFlow: Result<CodeHostDeviceFlow>
}

export interface CodeHostPorts {
  readonly http: Http
  readonly clock: Pick<Clock, 'now' | 'after'>
}

export interface PullHostPorts {
  readonly clients: ClientPool
  readonly clock: Clock
  readonly log: Log
}

/** The device flow with the person's own client id. */
export interface CodeHostDeviceFlow {
  /** The advice for a person when no OAuth helper is available. */
  readonly adviceWithoutHelper: string
  start(http: Http, clock: Pick<Clock, 'now'>, config: ServiceConfig): Promise<Result<DeviceAuthorization>>
  poll(
    http: Http,
    clock: Pick<Clock, 'now'>,
    config: ServiceConfig,
    deviceCode: string,
  ): Promise<Result<DevicePollResult>>
}

/** A person merges what a page showed; what came since has been read by nobody. */
export const UNSEEN_COMMITS = no(
  'conflict',
  'the branch has other commits than those that you saw; look at the pull request again, then merge it',
)
