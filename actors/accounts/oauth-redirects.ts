/**
 * The journeys' secrets, and those who came back from one and wait for its end.
 *
 * The `state` that a browser brings back is 256 bits of chance, and only its hash is kept. It is what tells our
 * journeys from an address that somebody else made up: without it nothing is exchanged, and nothing ends.
 */
import { hashOf, sameHash } from '../../core/fleet/token.ts'
import type { Clock, RandomSource } from '../../core/ports.ts'
import type { Accounts, Journey } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ConnectResponse, TrackerCallbackQuery } from '../../protocol/connect.ts'
import { JOURNEY_MS_MAX, JOURNEYS_MAX } from '../../protocol/limits.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { PendingRequests } from '../runtime/pending-requests.ts'
import { JOURNEY } from './connect.names.ts'
import type { Keeping, Stance } from './credential-writer.ts'
import { isPage, NAMES, unbegun } from './messages.ts'
import type { JourneyEffect, JourneyEvent, JourneyInput } from './oauth-redirect.machine.ts'
import {
  AGAIN,
  type JourneyErrandPorts,
  JourneyErrands,
  STRAYED,
  type Travel,
} from './oauth-redirect-effects.ts'
import type { Questions } from './provider-requests.ts'
import { sentence } from './safe-text.ts'

const STATE_BYTES = 32
/** How long it is remembered how a journey ended, for whoever comes back late or again. */
const JOURNEY_KEPT_MS = 10 * 60_000
/** Browsers that wait for the end of one journey. */
const ARRIVALS_WAITING_MAX = 16

const STRANGE = `no connection that is waited for belongs to this address: it is too old, was made by somebody else, or the service was started anew since; ${AGAIN}`
const WITHOUT_CODE = `this address holds no code of the tracker; ${AGAIN}`
const REFUSED = `the consent was not given, and nothing was changed; ${AGAIN} if that was a mistake`
const CROWDED_OUT = `too many connections were begun, and this one was forgotten; ${AGAIN}`
const NO_PORT = no('unavailable', 'the service is still opening its doors; try again in a moment')

export interface JourneyPorts extends JourneyErrandPorts {
  readonly clock: Clock
  readonly system: Pick<ActorSystem, 'spawn' | 'send' | 'peek'>
  readonly accounts: JourneyErrandPorts['accounts'] & Pick<Accounts, 'authorizeTracker'>
  readonly random: Pick<RandomSource, 'bytes'>
  /** On which browsers reach the callback; undefined while that is not known. */
  readonly port: () => number | undefined
}

export class Journeys {
  readonly #ports: JourneyPorts
  readonly #questions: Questions
  readonly #keeping: Keeping
  readonly #errands: JourneyErrands
  /** Oldest first. */
  readonly #travels = new Map<string, Travel>()

  constructor(ports: JourneyPorts, questions: Questions, keeping: Keeping) {
    this.#ports = ports
    this.#questions = questions
    this.#keeping = keeping
    this.#errands = new JourneyErrands(ports, questions, keeping, (travel, event) =>
      this.#tell(travel, event),
    )
  }

  get size(): number {
    return this.#travels.size
  }

  async begin(): Promise<Result<ConnectResponse>> {
    const { accounts, config, port: bound } = this.#ports
    const port = bound()
    if (port === undefined) return NO_PORT
    const stance = this.#keeping.stance('tracker')
    const state = this.#newState()
    const authorized = await this.#questions.ask(NAMES.tracker, () =>
      accounts.authorizeTracker(config(), { state, port }),
    )
    if (!authorized.ok) return unbegun('tracker', authorized.refusal)
    return this.#depart(stance, hashOf(state), port, authorized.value)
  }

  /** Whoever brings back a state of ours hears how its journey ends: whose account is connected, or why none is. */
  async arrive(query: TrackerCallbackQuery): Promise<Result<string>> {
    const travel = this.#withState(query.state ?? '')
    if (travel === undefined) return no('invalid', STRANGE)
    if (travel.arrivals.size >= ARRIVALS_WAITING_MAX)
      return no('unavailable', 'this connection is being made; wait a moment')
    const refusal = refusalIn(query)
    if (refusal === null && (query.code ?? '') === '') return no('invalid', WITHOUT_CODE)
    const { handle, answer } = travel.arrivals.add(query.code ?? '')
    if (!this.#tell(travel, { type: 'came back', handle, refusal })) this.#forget(travel, STRAYED)
    return answer
  }

  do(effect: JourneyEffect): void {
    const travel = this.#travels.get(effect.flow)
    if (travel === undefined) return
    switch (effect.type) {
      case 'connect.exchange':
        void this.#errands.exchange(travel, travel.arrivals.get(effect.handle) ?? '')
        return
      case 'connect.save journey':
        void this.#errands.save(travel)
        return
      case 'connect.say arrived':
        travel.arrivals.settleAll(yes(effect.detail))
        return
      case 'connect.say arrived before':
        travel.arrivals.settle(effect.handle, yes(`${effect.detail}; this was done already`))
        return
      case 'connect.say stranded':
        this.#strand(travel, effect.handle, effect.reason)
        return
      case 'connect.forget journey':
      case 'connect.crashed':
        this.#forget(travel, STRAYED)
        return
    }
  }

  supersede(turn: number, reason: string): void {
    for (const travel of this.#travels.values())
      if (travel.stance.turn < turn) this.#tell(travel, { type: 'superseded', reason })
  }

  stop(answer: Result<never>): void {
    for (const travel of this.#travels.values()) this.#end(travel, answer)
    this.#travels.clear()
  }

  // ---- departure -------------------------------------------------------------------------------------------------

  #depart(
    stance: Stance,
    stateHash: string,
    port: number,
    { url, verifier }: Journey,
  ): Result<ConnectResponse> {
    if (!isPage(url)) return no('invalid', 'the address of the consent page is none that a browser can open')
    this.#makeRoom()
    const key = `journey-${stance.turn}`
    const travel: Travel = {
      key,
      stance,
      stateHash,
      port,
      arrivals: new PendingRequests(),
      verifier,
      pair: undefined,
    }
    const consentUntil = this.#ports.clock.now() + JOURNEY_MS_MAX
    const input: JourneyInput = { flow: key, consentUntil, keptUntil: consentUntil + JOURNEY_KEPT_MS }
    const born = this.#ports.system.spawn(JOURNEY, key, input)
    if (!born.ok) return born
    this.#travels.set(key, travel)
    return yes({ status: 'redirect', provider: 'tracker', url })
  }

  /** The oldest goes, but not one that is being exchanged or saved, unless all are. */
  #makeRoom(): void {
    if (this.#travels.size < JOURNEYS_MAX) return
    const all = [...this.#travels.values()]
    const oldest = all.find((travel) => !this.#isAtWork(travel)) ?? all[0]
    if (oldest === undefined) return
    this.#tell(oldest, { type: 'crowded out' })
    this.#forget(oldest, CROWDED_OUT)
  }

  #isAtWork({ key }: Travel): boolean {
    const state = this.#ports.system.peek(JOURNEY, key)?.value
    return state === 'exchanging' || state === 'saving'
  }

  #newState(): string {
    const bytes = this.#ports.random.bytes(STATE_BYTES)
    // Fewer would be a state that can be guessed: a bug, and never sent out.
    if (bytes.length < STATE_BYTES) throw new RangeError(`needs ${STATE_BYTES} random bytes`)
    return Buffer.from(bytes).toString('base64url')
  }

  // ---- return ----------------------------------------------------------------------------------------------------

  /** All are compared, each in constant time, so that an answer's time tells nothing of what is close. */
  #withState(state: string): Travel | undefined {
    const hash = hashOf(state)
    return [...this.#travels.values()].filter((travel) => sameHash(travel.stateHash, hash)).at(-1)
  }

  // ---- its books -------------------------------------------------------------------------------------------------

  #strand(travel: Travel, handle: number | null, reason: string): void {
    travel.verifier = undefined
    const answer = no('invalid', reason)
    if (handle === null) travel.arrivals.settleAll(answer)
    else travel.arrivals.settle(handle, answer)
  }

  #tell(travel: Travel, event: JourneyEvent): boolean {
    return this.#ports.system.send(JOURNEY, travel.key, event)
  }

  #forget(travel: Travel, reason: string): void {
    this.#end(travel, no('invalid', reason))
    this.#travels.delete(travel.key)
  }

  #end(travel: Travel, answer: Result<never>): void {
    travel.arrivals.settleAll(answer)
    travel.verifier = undefined
    travel.pair = undefined
  }
}

function refusalIn({ error, error_description: more, code, state }: TrackerCallbackQuery): string | null {
  if (error === undefined) return null
  if (error === 'access_denied') return REFUSED
  const said = [error, more].filter((part) => part !== undefined && part !== '').join(': ')
  return `the tracker answered ${sentence(said, [code, state])}; ${AGAIN}`
}
