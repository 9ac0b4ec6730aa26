/**
 * The device flows, and those who wait for one: whoever began it, and whoever polls.
 *
 * There is one flow that counts; a newer one takes its place.
 */
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ConnectPollResponse, ConnectResponse } from '../../protocol/connect.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { PendingRequests } from '../runtime/pending-requests.ts'
import { DEVICE_FLOW } from './connect.names.ts'
import type { Keeping } from './credential-writer.ts'
import type { DeviceFlowEffect, DeviceFlowEvent, DeviceFlowInput } from './device-flow.machine.ts'
import { type DeviceErrandPorts, DeviceErrands, type DeviceFlow } from './device-flow-effects.ts'
import type { Questions } from './provider-requests.ts'

/** Polls that wait for one answer; those beyond are told to wait. */
const POLLS_WAITING_MAX = 32

const NO_FLOW = 'the code host is not being connected; begin with POST /api/connect/codehost'
const REPLACED = 'connecting the code host was begun anew; go on with the newest code'
const BROKEN = 'connecting the code host failed; begin again'

export interface DeviceFlowPorts extends DeviceErrandPorts {
  readonly system: Pick<ActorSystem, 'spawn' | 'send'>
  readonly redacted: () => ServiceConfig
}

export class DeviceFlows {
  readonly #ports: DeviceFlowPorts
  readonly #errands: DeviceErrands
  readonly #keeping: Keeping
  readonly #flows = new Map<string, DeviceFlow>()
  #current: DeviceFlow | undefined

  constructor(ports: DeviceFlowPorts, questions: Questions, keeping: Keeping) {
    this.#ports = ports
    this.#errands = new DeviceErrands(ports, questions, keeping, (flow, event) => this.#tell(flow, event))
    this.#keeping = keeping
  }

  get size(): number {
    return this.#flows.size
  }

  begin(): Promise<Result<ConnectResponse>> {
    const flow = this.#newFlow()
    const { answer } = flow.opening.add(null)
    const earlier = this.#current
    if (earlier !== undefined) this.#tell(earlier, { type: 'replaced' })
    this.#flows.set(flow.key, flow)
    this.#current = flow
    const input: DeviceFlowInput = { flow: flow.key }
    const born = this.#ports.system.spawn(DEVICE_FLOW, flow.key, input)
    if (!born.ok) this.#forget(flow, born.refusal.message)
    return answer
  }

  async poll(): Promise<ConnectPollResponse> {
    const flow = this.#current
    if (flow === undefined) return { status: 'error', detail: NO_FLOW }
    if (flow.polls.size >= POLLS_WAITING_MAX) return { status: 'pending' }
    const { handle, answer } = flow.polls.add(null)
    const told = this.#tell(flow, { type: 'polled', handle, now: this.#ports.clock.monotonic() })
    if (!told) this.#forget(flow, BROKEN)
    const polled = await answer
    return polled.ok ? polled.value : { status: 'error', detail: polled.refusal.message }
  }

  do(effect: DeviceFlowEffect): void {
    const flow = this.#flows.get(effect.flow)
    if (flow === undefined) return
    switch (effect.type) {
      case 'connect.start device':
        void this.#errands.start(flow)
        return
      case 'connect.show device':
        flow.opening.settleAll(flow.opened)
        return
      case 'connect.ask device':
        void this.#errands.ask(flow)
        return
      case 'connect.save device':
        void this.#errands.save(flow)
        return
      case 'connect.say pending':
        this.#answer(flow, effect.handle, { status: 'pending' })
        return
      case 'connect.say connected':
        this.#answer(flow, effect.handle, {
          status: 'connected',
          detail: effect.detail,
          config: this.#ports.redacted(),
        })
        return
      case 'connect.say over':
        this.#answer(flow, effect.handle, { status: 'error', detail: effect.reason })
        return
      case 'connect.forget device':
        this.#forget(flow, REPLACED)
        return
      case 'connect.crashed':
        this.#forget(flow, BROKEN)
        return
    }
  }

  supersede(turn: number, reason: string): void {
    for (const flow of this.#flows.values())
      if (flow.stance.turn < turn) this.#tell(flow, { type: 'superseded', reason })
  }

  stop(answer: Result<never>): void {
    for (const flow of this.#flows.values()) this.#end(flow, answer)
    this.#flows.clear()
    this.#current = undefined
  }

  // ---- its books -------------------------------------------------------------------------------------------------

  #newFlow(): DeviceFlow {
    const stance = this.#keeping.stance('codehost')
    return {
      key: `device-${stance.turn}`,
      stance,
      opening: new PendingRequests(),
      polls: new PendingRequests(),
      opened: no('failed', BROKEN),
      deviceCode: '',
      token: '',
    }
  }

  #answer(flow: DeviceFlow, handle: number | null, answer: ConnectPollResponse): void {
    if (handle === null) flow.polls.settleAll(yes(answer))
    else flow.polls.settle(handle, yes(answer))
  }

  #tell(flow: DeviceFlow, event: DeviceFlowEvent): boolean {
    return this.#ports.system.send(DEVICE_FLOW, flow.key, event)
  }

  #forget(flow: DeviceFlow, reason: string): void {
    this.#end(flow, no('conflict', reason))
    this.#flows.delete(flow.key)
    if (this.#current === flow) this.#current = undefined
  }

  /** What waits for it is answered, and its secrets are let go. */
  #end(flow: DeviceFlow, answer: Result<never>): void {
    flow.opening.settleAll(answer)
    flow.polls.settleAll(answer)
    flow.deviceCode = ''
    flow.token = ''
  }
}
