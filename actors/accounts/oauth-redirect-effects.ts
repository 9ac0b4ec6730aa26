/**
 * What a journey asks of the tracker once the browser is back: tokens for the code, and whose they are.
 *
 * Verifier and tokens lie here, from the one answer to the next question, and no longer.
 */

import type { Log } from '../../core/ports.ts'
import type { Accounts, TokenPair } from '../../core/provider-ports.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { PendingRequests } from '../runtime/pending-requests.ts'
import type { Keeping, Stance } from './credential-writer.ts'
import { NAMES } from './messages.ts'
import type { JourneyEvent } from './oauth-redirect.machine.ts'
import type { Questions } from './provider-requests.ts'
import { sentence } from './safe-text.ts'

export const AGAIN = 'connect the tracker again'
export const STRAYED = `connecting the tracker failed; ${AGAIN}`

export interface JourneyErrandPorts {
  readonly log: Log
  readonly config: () => ServiceConfig
  readonly accounts: Pick<Accounts, 'exchangeTracker' | 'checkTracker'>
}

export interface Travel {
  readonly key: string
  readonly stance: Stance
  readonly stateHash: string
  readonly port: number
  /** The codes that were brought back; only the first is used. */
  readonly arrivals: PendingRequests<string, string>
  verifier: string | undefined
  pair: TokenPair | undefined
}

export class JourneyErrands {
  readonly #ports: JourneyErrandPorts
  readonly #questions: Questions
  readonly #keeping: Keeping
  readonly #tell: (travel: Travel, event: JourneyEvent) => void

  constructor(
    ports: JourneyErrandPorts,
    questions: Questions,
    keeping: Keeping,
    tell: (travel: Travel, event: JourneyEvent) => void,
  ) {
    this.#ports = ports
    this.#questions = questions
    this.#keeping = keeping
    this.#tell = tell
  }

  async exchange(travel: Travel, code: string): Promise<void> {
    const { accounts, config, log } = this.#ports
    const { port, stance, verifier } = travel
    travel.verifier = undefined
    const problem = this.#keeping.problem(stance)
    // The code is not for the eyes of another tracker.
    if (problem !== undefined) {
      this.#tell(travel, { type: 'not exchanged', reason: problem })
      return
    }
    const order = { code, port, ...(verifier === undefined ? {} : { verifier }) }
    const exchanged = await this.#questions.goOn(NAMES.tracker, () =>
      accounts.exchangeTracker(config(), order),
    )
    if (exchanged.ok) {
      travel.pair = exchanged.value
      this.#tell(travel, { type: 'exchanged' })
      return
    }
    const reason = `${sentence(exchanged.refusal.message, [code, verifier])}; ${AGAIN}`
    log.warn({ reason }, 'the tracker gave no tokens for a code')
    this.#tell(travel, { type: 'not exchanged', reason })
  }

  async save(travel: Travel): Promise<void> {
    const { accounts, log } = this.#ports
    const { pair } = travel
    travel.pair = undefined
    if (pair === undefined) {
      this.#tell(travel, { type: 'not saved', reason: STRAYED })
      return
    }
    const { accessToken, refreshToken = null, expiresAt = null } = pair
    const kept = await this.#keeping.establish(
      travel.stance,
      { tracker: { apiKey: accessToken, refreshToken, tokenExpiresAt: expiresAt } },
      (config) => accounts.checkTracker(config),
      NAMES.tracker,
    )
    if (kept.ok) {
      log.info({ account: kept.value }, 'the tracker is connected')
      this.#tell(travel, { type: 'saved', detail: kept.value })
      return
    }
    const reason = kept.refusal.message
    log.warn({ reason }, 'the tracker could not be connected')
    this.#tell(travel, { type: 'not saved', reason })
  }
}
