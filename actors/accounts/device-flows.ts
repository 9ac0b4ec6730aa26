/**
 * DeviceFlows holds the device flows and the HTTP requests that wait for them: the start request and the polls.
 *
 * Only the newest flow is current; starting a flow replaces the previous one.
 */
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ConnectPollResponse, ConnectResponse } from '../../protocol/connect.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { PendingRequests } from '../runtime/pending-requests.ts'
import { DEVICE_FLOW } from './connect.names.ts'
import type { CredentialWriter } from './credential-writer.ts'
import type { DeviceFlowEffect, DeviceFlowEvent, DeviceFlowInput } from './device-flow.machine.ts'
import { type DeviceFlow, type DeviceFlowEffectPorts, DeviceFlowEffects } from './device-flow-effects.ts'
import type { ProviderRequests } from './provider-requests.ts'

/** The number of polls that may wait for one answer; further polls receive `pending` at once. */
const PENDING_POLLS_MAX = 32

const NO_FLOW = 'no device flow is running; start one with POST /api/connect/codehost'
const REPLACED = 'a newer device flow replaced this one; enter the newest code'
export const CONNECT_CODEHOST_FAILED = 'connecting the code host failed; connect it again'

export interface DeviceFlowPorts extends DeviceFlowEffectPorts {
  readonly system: Pick<ActorSystem, 'spawn' | 'send'>
  readonly redacted: () => ServiceConfig
}

export class DeviceFlows {
  readonly #ports: DeviceFlowPorts
  readonly #effects: DeviceFlowEffects
  readonly #writer: CredentialWriter
  readonly #flows = new Map<string, DeviceFlow>()
  #current: DeviceFlow | undefined

  constructor(ports: DeviceFlowPorts, requests: ProviderRequests, writer: CredentialWriter) {
    this.#ports = ports
    this.#effects = new DeviceFlowEffects(ports, requests, writer, (flow, event) => this.#send(flow, event))
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
        void this.#effects.start(flow)
        return
      case 'connect.report device start':
        flow.startRequests.settleAll(flow.startResult)
        return
      case 'connect.poll device':
        void this.#effects.poll(flow)
        return
      case 'connect.save device token':
        void this.#effects.save(flow)
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
}
