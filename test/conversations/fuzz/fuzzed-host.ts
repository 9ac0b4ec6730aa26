/**
 * FuzzedHost is a host in memory behind the production listeners, for hostile inputs. What a client waits for arrives
 * while the host's clock is turned, and `reached` counts how many inputs of each kind got past the first line.
 */
import type { HostApi } from '../../../actors/api/host-api.ts'
import type { ViewReceiver } from '../../../core/ports/connections.ts'
import { yes } from '../../../core/result.ts'
import type { Checker } from '../../../protocol/parse.ts'
import type { HostServer } from '../../../transport/host-server.ts'
import { openHostServer } from '../../../transport/server.ts'
import type { Harm } from '../../support/damage.ts'
import { ManualPullRequests, manualPullUrl } from '../../support/manual-code-host.ts'
import type { Random } from '../../support/random.ts'
import type { ReceivedFrame } from '../../support/socket-client.ts'
import { createTextLog, serverOptions } from '../../support/test-resources.ts'
import { configWith, HostConversation, ticket } from '../host-conversation.ts'

/** Everything that a host can do without other machines is configured. */
export const FUZZED_CONFIG = configWith({
  agent: { agentAApiKey: 'sk-agent' },
  codehost: { token: 'gh-token' },
})
/** An answer that has not come after so many turns of the event loop waits for the host's time. */
const TURNS_MAX = 40

export interface Share {
  sent: number
  reached: number
}

/** Counts by kind and harm, such as `request strained`. */
export class Shares {
  readonly byKind = new Map<string, Share>()

  add(kind: string, harm: Harm, isReached: boolean): void {
    const share = this.byKind.get(`${kind} ${harm}`) ?? { sent: 0, reached: 0 }
    this.byKind.set(`${kind} ${harm}`, {
      sent: share.sent + 1,
      reached: share.reached + Number(isReached),
    })
  }

  total(kind = ''): Share {
    const shares = [...this.byKind].filter(([name]) => name.startsWith(kind)).map(([, share]) => share)
    const sum = (of: keyof Share) => shares.reduce((total, share) => total + share[of], 0)
    return { sent: sum('sent'), reached: sum('reached') }
  }
}

/** Methods that the listeners call before the handler of a request, or without one. */
const BEFORE_HANDLERS = new Set<string>([
  'isOpen',
  'storeState',
  'allowedOrigins',
  'admitWorker',
  'admitJoinKey',
  'proveWorker',
  'hasWorkerSeat',
  'connectWorker',
])

const UNREAD_FRAMES = new Set(['frames_total malformed', 'frames_total unknown'])

export class FuzzedHost {
  readonly conversation = new HostConversation(FUZZED_CONFIG)
  readonly pulls = new ManualPullRequests()
  readonly random: Random
  readonly shares: Shares
  readonly serverLog = createTextLog()
  /** Calls of handlers and sockets into the host. */
  calls = 0
  readonly #wrongFrames: string[] = []
  #server: HostServer | undefined
  #served: Partial<HostApi> = {}

  constructor(random: Random, shares: Shares) {
    this.random = random
    this.shares = shares
    this.conversation.overrides = { pulls: () => yes(this.pulls), port: () => this.port }
    for (let number = 1; number < 4; number++)
      this.pulls.pulls.set(manualPullUrl('owner/name', number), 'open')
  }

  async open(): Promise<void> {
    await this.conversation.start()
    await this.#listen()
    this.conversation.tracker.put(...[1, 2, 3, 4, 5, 6].map((number) => ticket(`ENG-${number}`)))
    await this.conversation.clock.advance(1_000)
  }

  get port(): number {
    return this.#server?.managementPort ?? 0
  }

  async #listen(): Promise<void> {
    const served = this.#counted(this.conversation.hostApi)
    this.#served = served
    const opened = await openHostServer(serverOptions(served, { log: this.serverLog }))
    if (!opened.ok) throw new Error(opened.refusal.message)
    this.#server = opened.value
  }

  async close(): Promise<void> {
    await this.#server?.close('the test is over')
    this.#server = undefined
    // The native library keeps the handlers of a closed listener as long as the process lives: they lose their host.
    for (const name of Object.keys(this.#served)) Reflect.deleteProperty(this.#served, name)
  }

  /** Another host on the same disk. */
  async restart(): Promise<void> {
    await this.close()
    await this.conversation.restart()
    await this.#listen()
  }

  drawHarm(brokenShare: number): Harm {
    return this.random.chance(brokenShare) ? 'broken' : this.random.chance(0.75) ? 'strained' : 'none'
  }

  /** Turns the host's clock until the promise is settled. Undefined: it waits for time to pass. */
  async turnUntil<T>(waiting: Promise<T>): Promise<T | undefined> {
    let isSettled = false
    const settled = waiting.finally(() => {
      isSettled = true
    })
    for (let turns = 0; turns < TURNS_MAX && !isSettled; turns++) await this.conversation.settle()
    return isSettled ? settled : undefined
  }

  /** An operator takes back what the inputs did to the configuration and to the workers. */
  tidyUp(): void {
    const { hostApi, store } = this.conversation
    store.config.edit(FUZZED_CONFIG)
    for (const { id, state } of hostApi.fleet().workers) if (state !== 'active') void hostApi.enableWorker(id)
  }

  /** People resume some of the sandboxes that may be resumed. */
  resumeSome(): void {
    const { hostApi } = this.conversation
    const listed = hostApi.runs({ limit: 30 })
    const retained = listed.ok ? listed.value.runs.filter(({ sandbox }) => sandbox.id !== undefined) : []
    for (const { id } of retained) if (this.random.chance(0.5)) void hostApi.resumeRun(id)
  }

  /** How many frames of workers have passed their schemas. */
  receivedFrames(): number {
    this.conversation.hostApi.updateGauges()
    let received = 0
    for (const [name, count] of this.conversation.counters)
      if (name.startsWith('frames_total') && !UNREAD_FRAMES.has(name)) received += count
    return received
  }

  /** Notes a frame of the host that is not of its schema. */
  checkFrame(check: Checker<unknown>, frame: ReceivedFrame): void {
    const checked = check(frame)
    if (checked.ok) return
    const [, ...path] = checked.error.slice(0, checked.error.indexOf(':')).split('/')
    const holder = path.slice(0, -1).reduce<unknown>((at, key) => Reflect.get(Object(at), key), frame)
    this.#wrongFrames.push(`${frame.type}${checked.error} in ${JSON.stringify(holder)}`)
  }

  /** Errors in the logs of host and listeners, broken invariants, and wrong frames. */
  faults(): string[] {
    const own = this.conversation.transcript.filter((line) => line.startsWith('!!'))
    this.conversation.clearTranscript()
    this.conversation.log.lines.length = 0
    const served = this.serverLog.lines.filter((line) => line.startsWith('error'))
    this.serverLog.lines.length = 0
    return [...own, ...served, ...this.#wrongFrames]
  }

  #counted(hostApi: HostApi): HostApi {
    const count = (): void => {
      this.calls += 1
    }
    const counted = Object.entries(hostApi).map(
      ([name, method]: [string, (...args: unknown[]) => unknown]) => [
        name,
        BEFORE_HANDLERS.has(name)
          ? method
          : (...args: unknown[]) => {
              count()
              return method(...args)
            },
      ],
    )
    // The same methods, each with a count in front.
    return {
      ...(Object.fromEntries(counted) as HostApi),
      attachView: (id, view) => countedView(hostApi.attachView(id, view), count),
      inspect: (receiver) => {
        const opened = hostApi.inspect(receiver)
        if (!opened.ok) return opened
        const session = opened.value
        return yes({
          follow: (request) => {
            count()
            session.follow(request)
          },
          onDrained: () => session.onDrained(),
          close: () => session.close(),
        })
      },
    }
  }
}

const countedView = (view: ViewReceiver, count: () => void): ViewReceiver => ({
  onInput: (data) => {
    count()
    view.onInput(data)
  },
  onResize: (cols, rows) => {
    count()
    view.onResize(cols, rows)
  },
  onClosed: () => view.onClosed(),
})
