/**
 * The device flow's secrets, and those who wait for it: whoever began it, and whoever polls.
 *
 * There is one flow that counts; a newer one takes its place.
 */
import type { Accounts, DevicePoll, DeviceStart } from '../../core/neighbours.ts'
import type { Clock, Log } from '../../core/ports.ts'
import { type Answer, no, type Refusal, yes } from '../../core/refusal.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ConnectPollResponse, ConnectResponse } from '../../protocol/connect.ts'
import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { Drawer } from '../kit/drawer.ts'
import type { ActorHost } from '../kit/host.ts'
import { DEVICE_FLOW } from './connect.names.ts'
import type { DeviceFlowEffect, DeviceFlowEvent, DeviceFlowInput } from './device-flow.machine.ts'
import type { Keeping, Stance } from './keeping.ts'
import { isPage, manual, NAMES } from './people.ts'
import type { Questions } from './questions.ts'
import { sentence } from './sentence.ts'

/** Polls that wait for one answer; those beyond are told to wait. */
const POLLS_WAITING_MAX = 32
/** What a code host may ask for; between polls, and until its code runs out. */
const INTERVAL_SECONDS = { usual: 5, min: 1, max: 300 }
const EXPIRY_SECONDS = { usual: 900, min: 1, max: 86_400 }

const NO_FLOW = 'the code host is not being connected; begin with POST /api/connect/codehost'
const REPLACED = 'connecting the code host was begun anew; go on with the newest code'
const BROKEN = 'connecting the code host failed; begin again'

export interface FlowPorts {
  readonly clock: Clock
  readonly log: Log
  readonly host: Pick<ActorHost, 'bear' | 'tell' | 'peek'>
  readonly config: () => ServiceConfig
  readonly redacted: () => ServiceConfig
  readonly accounts: Accounts
}

interface Flow {
  readonly key: string
  readonly stance: Stance
  readonly opening: Drawer<null, ConnectResponse>
  readonly polls: Drawer<null, ConnectPollResponse>
  opened: Answer<ConnectResponse>
  deviceCode: string
  token: string
}

export class DeviceFlows {
  readonly #ports: FlowPorts
  readonly #questions: Questions
  readonly #keeping: Keeping
  readonly #flows = new Map<string, Flow>()
  #current: Flow | undefined

  constructor(ports: FlowPorts, questions: Questions, keeping: Keeping) {
    this.#ports = ports
    this.#questions = questions
    this.#keeping = keeping
  }

  get size(): number {
    return this.#flows.size
  }

  begin(): Promise<Answer<ConnectResponse>> {
    const flow = this.#newFlow()
    const { answer } = flow.opening.put(null)
    const earlier = this.#current
    if (earlier !== undefined) this.#tell(earlier, { type: 'replaced' })
    this.#flows.set(flow.key, flow)
    this.#current = flow
    const input: DeviceFlowInput = { flow: flow.key }
    const born = this.#ports.host.bear(DEVICE_FLOW, flow.key, input)
    if (!born.ok) this.#forget(flow, born.refusal.message)
    return answer
  }

  async poll(): Promise<ConnectPollResponse> {
    const flow = this.#current
    if (flow === undefined) return { status: 'error', detail: NO_FLOW }
    if (flow.polls.size >= POLLS_WAITING_MAX) return { status: 'pending' }
    const { handle, answer } = flow.polls.put(null)
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
        void this.#start(flow)
        return
      case 'connect.show device':
        flow.opening.settleAll(flow.opened)
        return
      case 'connect.ask device':
        void this.#ask(flow)
        return
      case 'connect.save device':
        void this.#save(flow)
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

  stop(answer: Answer<never>): void {
    for (const flow of this.#flows.values()) this.#end(flow, answer)
    this.#flows.clear()
    this.#current = undefined
  }

  // ---- what the flow asks for ------------------------------------------------------------------------------------

  async #start(flow: Flow): Promise<void> {
    const { accounts, config } = this.#ports
    const started = await this.#questions.ask(NAMES.codehost, () => accounts.startDevice(config()))
    const problem = started.ok ? startProblem(started.value) : undefined
    if (!started.ok || problem !== undefined) {
      flow.opened = started.ok ? no('failed', problem ?? '') : unopened(started.refusal)
      this.#tell(flow, { type: 'not started' })
      return
    }
    this.#started(flow, started.value)
  }

  #started(flow: Flow, start: DeviceStart): void {
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

  async #ask(flow: Flow): Promise<void> {
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

  #polled(flow: Flow, polled: DevicePoll): void {
    if (polled.is === 'over') {
      this.#tell(flow, { type: 'code died', reason: sentence(polled.reason, [flow.deviceCode]) })
      return
    }
    if (polled.is === 'pending') {
      const { intervalSeconds: asked } = polled
      const intervalMs = asked === undefined ? null : within(asked, INTERVAL_SECONDS) * 1000
      this.#tell(flow, { type: 'still pending', intervalMs })
      return
    }
    flow.token = polled.token
    flow.deviceCode = ''
    this.#tell(flow, { type: 'token came' })
  }

  async #save(flow: Flow): Promise<void> {
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

  // ---- its books -------------------------------------------------------------------------------------------------

  #newFlow(): Flow {
    const stance = this.#keeping.stance('codehost')
    return {
      key: `device-${stance.turn}`,
      stance,
      opening: new Drawer(),
      polls: new Drawer(),
      opened: no('failed', BROKEN),
      deviceCode: '',
      token: '',
    }
  }

  #answer(flow: Flow, handle: number | null, answer: ConnectPollResponse): void {
    if (handle === null) flow.polls.settleAll(yes(answer))
    else flow.polls.settle(handle, yes(answer))
  }

  #tell(flow: Flow, event: DeviceFlowEvent): boolean {
    return this.#ports.host.tell(DEVICE_FLOW, flow.key, event)
  }

  #forget(flow: Flow, reason: string): void {
    this.#end(flow, no('conflict', reason))
    this.#flows.delete(flow.key)
    if (this.#current === flow) this.#current = undefined
  }

  /** What waits for it is answered, and its secrets are let go. */
  #end(flow: Flow, answer: Answer<never>): void {
    flow.opening.settleAll(answer)
    flow.polls.settleAll(answer)
    flow.deviceCode = ''
    flow.token = ''
  }
}

/** Where no flow is possible, a token given by hand is. */
function unopened({ kind, message }: Refusal): Answer<ConnectResponse> {
  return kind === 'invalid' ? manual('codehost', sentence(message)) : no(kind, sentence(message))
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
