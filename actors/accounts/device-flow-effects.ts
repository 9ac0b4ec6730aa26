/**
 * DeviceFlowEffects sends a device flow's requests to the code host: start the flow, poll it, and check the token.
 *
 * The device code and the token stay in the flow's record from one reply to the next request, and no longer. The
 * order of requests is left to the device flow machine.
 */
import type { Clock, Log } from '../../core/ports.ts'
import type { Accounts, DeviceAuthorization, DevicePollResult } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ConnectPollResponse, ConnectResponse } from '../../protocol/connect.ts'
import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import type { PendingRequests } from '../runtime/pending-requests.ts'
import type { ConnectAttempt, CredentialWriter } from './credential-writer.ts'
import type { DeviceFlowEvent } from './device-flow.machine.ts'
import { isWebPage, PROVIDER_NAMES, startRefusal } from './messages.ts'
import type { ProviderRequests } from './provider-requests.ts'
import { safeText } from './safe-text.ts'

/** Accepted ranges of the poll interval and of the code's lifetime. `usual` applies when the value is no number. */
const INTERVAL_SECONDS = { usual: 5, min: 1, max: 300 }
const EXPIRY_SECONDS = { usual: 900, min: 1, max: 86_400 }

export interface DeviceFlowEffectPorts {
  readonly clock: Clock
  readonly log: Log
  readonly config: () => ServiceConfig
  readonly accounts: Pick<Accounts, 'startDevice' | 'pollDevice' | 'checkCodehost'>
}

export interface DeviceFlow {
  readonly key: string
  readonly attempt: ConnectAttempt
  readonly startRequests: PendingRequests<null, ConnectResponse>
  readonly pollRequests: PendingRequests<null, ConnectPollResponse>
  /** The reply to the request that started the flow. */
  startResult: Result<ConnectResponse>
  deviceCode: string
  token: string
}

export class DeviceFlowEffects {
  readonly #ports: DeviceFlowEffectPorts
  readonly #requests: ProviderRequests
  readonly #writer: CredentialWriter
  readonly #send: (flow: DeviceFlow, event: DeviceFlowEvent) => void

  constructor(
    ports: DeviceFlowEffectPorts,
    requests: ProviderRequests,
    writer: CredentialWriter,
    send: (flow: DeviceFlow, event: DeviceFlowEvent) => void,
  ) {
    this.#ports = ports
    this.#requests = requests
    this.#writer = writer
    this.#send = send
  }

  async start(flow: DeviceFlow): Promise<void> {
    const { accounts, config } = this.#ports
    const started = await this.#requests.request(PROVIDER_NAMES.codehost, () =>
      accounts.startDevice(config()),
    )
    const problem = started.ok ? startProblem(started.value) : undefined
    if (!started.ok || problem !== undefined) {
      flow.startResult = started.ok ? no('invalid', problem ?? '') : startRefusal('codehost', started.refusal)
      this.#send(flow, { type: 'start failed' })
      return
    }
    this.#onStarted(flow, started.value)
  }

  #onStarted(flow: DeviceFlow, start: DeviceAuthorization): void {
    const { clock } = this.#ports
    const interval = clamp(start.intervalSeconds, INTERVAL_SECONDS)
    const expiresIn = clamp(start.expiresInSeconds, EXPIRY_SECONDS)
    flow.deviceCode = start.deviceCode
    flow.startResult = yes({
      status: 'device',
      provider: 'codehost',
      userCode: start.userCode,
      verificationUri: start.verificationUri,
      interval,
      expiresIn,
    })
    this.#send(flow, {
      type: 'started',
      now: clock.monotonic(),
      intervalMs: interval * 1000,
      expiresAt: clock.now() + expiresIn * 1000,
    })
  }

  async poll(flow: DeviceFlow): Promise<void> {
    const { accounts, config, log } = this.#ports
    const problem = this.#writer.problemWith(flow.attempt)
    // The settings changed. Another code host must not receive this device code.
    if (problem !== undefined) {
      this.#send(flow, { type: 'code rejected', reason: problem })
      return
    }
    const polled = await this.#requests.requestInFlow(PROVIDER_NAMES.codehost, () =>
      accounts.pollDevice(config(), flow.deviceCode),
    )
    if (polled.ok) {
      this.#onPolled(flow, polled.value)
      return
    }
    const reason = safeText(polled.refusal.message, [flow.deviceCode])
    log.warn({ reason }, 'polling the code host for the device token failed; the next poll tries again')
    this.#send(flow, { type: 'unanswered' })
  }

  #onPolled(flow: DeviceFlow, polled: DevicePollResult): void {
    if (polled.is === 'over') {
      this.#send(flow, { type: 'code rejected', reason: safeText(polled.reason, [flow.deviceCode]) })
      return
    }
    if (polled.is === 'pending') {
      const { intervalSeconds: requestedSeconds, isTooFast = false } = polled
      const intervalMs =
        requestedSeconds === undefined ? null : clamp(requestedSeconds, INTERVAL_SECONDS) * 1000
      this.#send(flow, { type: 'still pending', intervalMs, isTooFast })
      return
    }
    flow.token = polled.token
    flow.deviceCode = ''
    this.#send(flow, { type: 'token received' })
  }

  async save(flow: DeviceFlow): Promise<void> {
    const { accounts, log } = this.#ports
    const saved = await this.#writer.checkAndSave(
      flow.attempt,
      { codehost: { token: flow.token } },
      (config) => accounts.checkCodehost(config),
      PROVIDER_NAMES.codehost,
    )
    flow.token = ''
    if (saved.ok) {
      log.info({ account: saved.value }, 'the code host is connected')
      this.#send(flow, { type: 'saved', detail: saved.value })
      return
    }
    const reason = saved.refusal.message
    log.warn({ reason }, 'connecting the code host failed')
    this.#send(flow, { type: 'save failed', reason })
  }
}

/** Returns why the reply is unusable. A person types the user code and opens the page, so both must be displayable. */
function startProblem({ deviceCode, userCode, verificationUri }: DeviceAuthorization): string | undefined {
  const isDisplayable =
    userCode !== '' && userCode.length <= NAME_CHARS_MAX && safeText(userCode) === userCode
  if (deviceCode !== '' && isDisplayable && isWebPage(verificationUri)) return undefined
  return 'the code host returned no usable code and page; try again, or give a token by hand'
}

function clamp(
  seconds: number,
  { usual, min, max }: { readonly usual: number; readonly min: number; readonly max: number },
): number {
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds, min), max) : usual
}
