/**
 * DeviceFlows holds the device flows and the HTTP requests that wait for them, and sends the flows' requests to the
 * code host: start the flow, poll it, and check the token.
 *
 * Only the newest flow is current; starting a flow replaces the previous one. The device code and the token stay in
 * the flow's record from one reply to the next request, and no longer. The order of requests is left to the machine.
 */
import type { DeviceAuthorization, DevicePollResult } from '../../core/ports/accounts.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ConnectPollResponse, ConnectResponse } from '../../protocol/connect.ts'
import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { PendingRequests } from '../runtime/pending-requests.ts'
import type { AccountPorts, ConnectAttempt, CredentialWriter } from './credential-writer.ts'
import {
  DEVICE_FLOW,
  type DeviceFlowEffect,
  type DeviceFlowEvent,
  type DeviceFlowInput,
} from './device-flow.machine.ts'
import { isWebPage, PROVIDER_NAMES, safeText, startRefusal } from './messages.ts'
import type { ProviderRequests } from './provider-requests.ts'

/** The number of polls that may wait for one answer; further polls receive `pending` at once. */
const PENDING_POLLS_MAX = 32

/** Accepted ranges of the poll interval and of the code's lifetime. `usual` applies when the value is no number. */
const INTERVAL_SECONDS = { usual: 5, min: 1, max: 300 }
const EXPIRY_SECONDS = { usual: 900, min: 1, max: 86_400 }

const NO_FLOW = 'no device flow is running; start one with POST /api/connect/codehost'
const REPLACED = 'a newer device flow replaced this one; enter the newest code'
export const CONNECT_CODEHOST_FAILED = 'connecting the code host failed; connect it again'

interface DeviceFlow {
  readonly key: string
  readonly attempt: ConnectAttempt
  readonly startRequests: PendingRequests<null, ConnectResponse>
  readonly pollRequests: PendingRequests<null, ConnectPollResponse>
  /** The reply to the request that started the flow. */
  startResult: Result<ConnectResponse>
  deviceCode: string
  token: string
}

export class DeviceFlows {
  readonly #ports: AccountPorts
  readonly #requests: ProviderRequests
  readonly #writer: CredentialWriter
  readonly #flows = new Map<string, DeviceFlow>()
  #current: DeviceFlow | undefined

  constructor(ports: AccountPorts, requests: ProviderRequests, writer: CredentialWriter) {
    this.#ports = ports
    this.#requests = requests
    this.#writer = writer
  }

  get size(): number {
    return this.#flows.size
  }

  start(): Promise<Result<ConnectResponse>> {
    const flow = this.#createFlow()
    const { answer } = flow.startRequests.add(null)
    const previous = this.#current
    if (previous !== undefined) this.#send(previous, { type: 'replaced' })
    this.#flows.set(flow.key, flow)
    this.#current = flow
    const input: DeviceFlowInput = { flow: flow.key }
    const spawned = this.#ports.system.spawn(DEVICE_FLOW, flow.key, input)
    if (!spawned.ok) this.#forget(flow, spawned.refusal.message)
    return answer
  }

  async poll(): Promise<ConnectPollResponse> {
    const flow = this.#current
    if (flow === undefined) return { status: 'error', detail: NO_FLOW }
    if (flow.pollRequests.size >= PENDING_POLLS_MAX) return { status: 'pending' }
    const { handle, answer } = flow.pollRequests.add(null)
    const isSent = this.#send(flow, { type: 'polled', handle, now: this.#ports.clock.monotonic() })
    if (!isSent) this.#forget(flow, CONNECT_CODEHOST_FAILED)
    const polled = await answer
    return polled.ok ? polled.value : { status: 'error', detail: polled.refusal.message }
  }

  runEffect(effect: DeviceFlowEffect): void {
    const flow = this.#flows.get(effect.flow)
    if (flow === undefined) return
    switch (effect.type) {
      case 'connect.start device flow':
        void this.#requestStart(flow)
        return
      case 'connect.report device start':
        flow.startRequests.settleAll(flow.startResult)
        return
      case 'connect.poll device':
        void this.#requestPoll(flow)
        return
      case 'connect.save device token':
        void this.#saveToken(flow)
        return
      case 'connect.report pending':
        this.#answer(flow, effect.handle, { status: 'pending' })
        return
      case 'connect.report connected':
        this.#answer(flow, effect.handle, {
          status: 'connected',
          detail: effect.detail,
          config: this.#ports.redacted(),
        })
        return
      case 'connect.report device failed':
        this.#answer(flow, effect.handle, { status: 'error', detail: effect.reason })
        return
      case 'connect.forget device flow':
        this.#forget(flow, REPLACED)
        return
      case 'connect.crashed':
        this.#forget(flow, CONNECT_CODEHOST_FAILED)
        return
    }
  }

  supersede(attempt: number, reason: string): void {
    for (const flow of this.#flows.values())
      if (flow.attempt.number < attempt) this.#send(flow, { type: 'superseded', reason })
  }

  stop(answer: Result<never>): void {
    for (const flow of this.#flows.values()) this.#release(flow, answer)
    this.#flows.clear()
    this.#current = undefined
  }

  // ---- flow records ----------------------------------------------------------------------------------------------

  #createFlow(): DeviceFlow {
    const attempt = this.#writer.beginConnect('codehost')
    return {
      key: `device-${attempt.number}`,
      attempt,
      startRequests: new PendingRequests(),
      pollRequests: new PendingRequests(),
      startResult: no('failed', CONNECT_CODEHOST_FAILED),
      deviceCode: '',
      token: '',
    }
  }

  #answer(flow: DeviceFlow, handle: number | null, answer: ConnectPollResponse): void {
    if (handle === null) flow.pollRequests.settleAll(yes(answer))
    else flow.pollRequests.settle(handle, yes(answer))
  }

  #send(flow: DeviceFlow, event: DeviceFlowEvent): boolean {
    return this.#ports.system.send(DEVICE_FLOW, flow.key, event)
  }

  #forget(flow: DeviceFlow, reason: string): void {
    this.#release(flow, no('conflict', reason))
    this.#flows.delete(flow.key)
    if (this.#current === flow) this.#current = undefined
  }

  /** Answers all pending requests of the flow and drops its secrets. */
  #release(flow: DeviceFlow, answer: Result<never>): void {
    flow.startRequests.settleAll(answer)
    flow.pollRequests.settleAll(answer)
    flow.deviceCode = ''
    flow.token = ''
  }

  // ---- requests to the code host ---------------------------------------------------------------------------------

  async #requestStart(flow: DeviceFlow): Promise<void> {
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

  async #requestPoll(flow: DeviceFlow): Promise<void> {
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

  async #saveToken(flow: DeviceFlow): Promise<void> {
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
