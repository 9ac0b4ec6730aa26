/**
 * TrackerDriver defines one kind of tracker: how it is created, checked and connected.
 *
 * Each driver has a folder here with its definition in `driver.ts`; `registry.ts` lists the definitions.
 */

import type { Accounts, RedirectAuthorization, TokenPair } from '../../core/ports/accounts.ts'
import type { Clock, RandomSource } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Tracker } from '../../core/ports/tracker.ts'
import { no, type Refused, type Result } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { TokenClient } from '../accounts/reply-fields.ts'
import type { ClientPool } from '../http/client-types.ts'

export interface TrackerDriver {
  /** Undefined when the tracker is not configured or connected. */
  create(config: ServiceConfig, ports: TrackerPorts): Tracker | undefined
  /** Checks the tracker's credential and returns its owner. */
  checkAccount(config: ServiceConfig, clients: ClientPool): Promise<Result<string>>
  /** The OAuth consent by redirect, or why this tracker has none. */
  readonly consent: Result<TrackerConsent>
}

export interface TrackerPorts {
  readonly clock: Clock
  readonly log: Log
  readonly clients: ClientPool
  /** Asked before each change that does not go through the clients; absent: changes are made. */
  readonly maySend?: () => boolean
}

/** OAuth with the person's own client id. */
export interface TrackerConsent {
  /** The service's name in messages. */
  readonly serviceName: string
  /** The advice for a person when no OAuth helper is available. */
  readonly adviceWithoutHelper: string
  authorize(
    config: ServiceConfig,
    order: Parameters<Accounts['authorizeTracker']>[1],
    random: Pick<RandomSource, 'bytes'>,
  ): Result<RedirectAuthorization>
  exchange(
    http: TokenClient,
    clock: Pick<Clock, 'now'>,
    config: ServiceConfig,
    order: Parameters<Accounts['exchangeTrackerCode']>[1],
  ): Promise<Result<TokenPair>>
  refresh(
    http: TokenClient,
    clock: Pick<Clock, 'now'>,
    config: ServiceConfig,
    refreshToken: string,
  ): Promise<Result<TokenPair>>
}

/** Refusal of all trackers for a ticket that somebody moved elsewhere and that must stay there. */
export function refuseMovedTicket(identifier: string, state: string): Refused {
  return no('gone', `${printable(identifier)} was moved to ${printable(state)} meanwhile, and stays there`)
}
