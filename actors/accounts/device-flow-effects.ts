/**
 * What a device flow asks of the code host: a code, whether somebody has entered it, and whose token came of it.
 *
 * Device code and token lie here, from the one answer to the next question, and no longer.
 */

import type { Clock, Log } from '../../core/ports.ts'
import type { Accounts, DevicePoll, DeviceStart } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ConnectPollResponse, ConnectResponse } from '../../protocol/connect.ts'
import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import type { PendingRequests } from '../runtime/pending-requests.ts'
import type { Keeping, Stance } from './credential-writer.ts'
import type { DeviceFlowEvent } from './device-flow.machine.ts'
import { isPage, NAMES, unbegun } from './messages.ts'
import type { Questions } from './provider-requests.ts'
import { sentence } from './safe-text.ts'

/** What a code host may ask for; between polls, and until its code runs out. */
const INTERVAL_SECONDS = { usual: 5, min: 1, max: 300 }
const EXPIRY_SECONDS = { usual: 900, min: 1, max: 86_400 }

export interface DeviceErrandPorts {
  readonly clock: Clock
  readonly log: Log
  readonly config: () => ServiceConfig
  readonly accounts: Pick<Accounts, 'startDevice' | 'pollDevice' | 'checkCodehost'>
}

export interface DeviceFlow {
  readonly key: string
  readonly stance: Stance
  readonly opening: PendingRequests<null, ConnectResponse>
  readonly polls: PendingRequests<null, ConnectPollResponse>
  /** What whoever began it is to hear. */
  opened: Result<ConnectResponse>
  deviceCode: string
  token: string
}

export class DeviceErrands {
  readonly #ports: DeviceErrandPorts
  readonly #questions: Questions
  readonly #keeping: Keeping
  readonly #tell: (flow: DeviceFlow, event: DeviceFlowEvent) => void

  constructor(
    ports: DeviceErrandPorts,
    questions: Questions,
    keeping: Keeping,
    tell: (flow: DeviceFlow, event: DeviceFlowEvent) => void,
  ) {
    this.#ports = ports
    this.#questions = questions
    this.#keeping = keeping
    this.#tell = tell
  }

  async start(flow: DeviceFlow): Promise<void> {
    const { accounts, config } = this.#ports
    const started = await this.#questions.ask(NAMES.codehost, () => accounts.startDevice(config()))
    const problem = started.ok ? startProblem(started.value) : undefined
    if (!started.ok || problem !== undefined) {
      flow.opened = started.ok ? no('invalid', problem ?? '') : unbegun('codehost', started.refusal)
      this.#tell(flow, { type: 'not started' })
      return
    }
    this.#started(flow, started.value)
  }

  #started(flow: DeviceFlow, start: DeviceStart): void {
    const { clock } = this.#ports
    const interval = within(start.intervalSeconds, INTERVAL_SECONDS)
    const expiresIn = within(start.expiresInSeconds, EXPIRY_SECONDS)
    flow.deviceCode = start.deviceCode
    flow.opened = yes({
      status: 'device',
      provider: 'codehost',
      userCode: start.userCode,
      verificationUri: start.verificationUri,
      interval,
      expiresIn,
    })
    this.#tell(flow, {
      type: 'started',
      now: clock.monotonic(),
      intervalMs: interval * 1000,
      expiresAt: clock.now() + expiresIn * 1000,
    })
  }

  async ask(flow: DeviceFlow): Promise<void> {
    const { accounts, config, log } = this.#ports
    const problem = this.#keeping.problem(flow.stance)
    // Its code is not for the eyes of another code host.
    if (problem !== undefined) {
      this.#tell(flow, { type: 'code died', reason: problem })
      return
    }
    const polled = await this.#questions.goOn(NAMES.codehost, () =>
      accounts.pollDevice(config(), flow.deviceCode),
    )
    if (polled.ok) {
      this.#polled(flow, polled.value)
      return
    }
    const reason = sentence(polled.refusal.message, [flow.deviceCode])
    log.warn({ reason }, 'the code host could not be asked whether the code was entered; that passes')
    this.#tell(flow, { type: 'unanswered' })
  }

  #polled(flow: DeviceFlow, polled: DevicePoll): void {
    if (polled.is === 'over') {
      this.#tell(flow, { type: 'code died', reason: sentence(polled.reason, [flow.deviceCode]) })
      return
    }
    if (polled.is === 'pending') {
      const { intervalSeconds: asked, isTooFast = false } = polled
      const intervalMs = asked === undefined ? null : within(asked, INTERVAL_SECONDS) * 1000
      this.#tell(flow, { type: 'still pending', intervalMs, isTooFast })
      return
    }
    flow.token = polled.token
    flow.deviceCode = ''
    this.#tell(flow, { type: 'token came' })
  }

  async save(flow: DeviceFlow): Promise<void> {
    const { accounts, log } = this.#ports
    const kept = await this.#keeping.establish(
      flow.stance,
      { codehost: { token: flow.token } },
      (config) => accounts.checkCodehost(config),
      NAMES.codehost,
    )
    flow.token = ''
    if (kept.ok) {
      log.info({ account: kept.value }, 'the code host is connected')
      this.#tell(flow, { type: 'saved', detail: kept.value })
      return
    }
    const reason = kept.refusal.message
    log.warn({ reason }, 'the code host could not be connected')
    this.#tell(flow, { type: 'not saved', reason })
  }
}

/** A person will type the one and click on the other. */
function startProblem({ deviceCode, userCode, verificationUri }: DeviceStart): string | undefined {
  const isShown = userCode !== '' && userCode.length <= NAME_CHARS_MAX && sentence(userCode) === userCode
  if (deviceCode !== '' && isShown && isPage(verificationUri)) return undefined
  return 'the code host answered without a code and a page to enter it; try again, or give a token by hand'
}

function within(
  seconds: number,
  { usual, min, max }: { readonly usual: number; readonly min: number; readonly max: number },
): number {
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds, min), max) : usual
}
