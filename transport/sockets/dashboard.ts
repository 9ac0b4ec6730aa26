/**
 * Serves the dashboard socket: a hello with the whole state, then every change. A socket of `/ws?changes=1` gets a
 * hello without runs and tickets, and of both only what has changed.
 *
 * Each push is serialized once and published through the library's topics: one for each form of sockets, one for the
 * events of all runs, one for each subscribed run. A socket with subscriptions leaves the topic of all runs, so no
 * event arrives twice.
 */
import type { HostApi } from '../../actors/api/host-api.ts'
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import type { EventPush, OutgoingPush } from '../../core/ports/connections.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import { SERVICE_FAILED } from '../../core/result.ts'
import {
  type ChangesFrame,
  type DashboardPush,
  DashboardRequest,
  type SubscribedFrame,
  type TicketsChangedPush,
} from '../../protocol/dashboard.ts'
import { DASHBOARD_BACKLOG_BYTES_MAX, SOCKET_IDLE_SECONDS } from '../../protocol/limits.ts'
import { createChecker, parseJson } from '../../protocol/parse.ts'
import type { Ticket } from '../../protocol/run.ts'
import type { ListenerApp, ServerSocket } from '../listener-port.ts'
import { CLOSE } from './bounded-sender.ts'
import {
  type DashboardForm,
  DashboardSocket,
  type DashboardSocketData,
  type EncodedPush,
  runTopic,
  TOPIC_EVENTS,
  TOPIC_OF,
} from './dashboard-socket.ts'
import type { SocketGroup, Upgrade } from './upgrade.ts'

export const DASHBOARD_SOCKETS_MAX = 1024
export const DASHBOARD_FRAME_BYTES_MAX = 64 * 1024
export const DASHBOARD_SUBSCRIPTIONS_MAX = 1000

export interface DashboardSocketsOptions {
  readonly hostApi: HostApi
  readonly clock: Clock
  readonly meters: Meters
  readonly log: Log
}

/** Frames above the protocol's limit are read up to this size, to answer with a reason; beyond it the library closes. */
const FRAME_BYTES_READ_MAX = 2 * DASHBOARD_FRAME_BYTES_MAX
const LABELS = { socket: 'dashboard' }

export class DashboardSockets implements SocketGroup {
  readonly #app: ListenerApp
  readonly #options: DashboardSocketsOptions
  readonly #dashboards = new Set<DashboardSocket>()
  /** Dashboards that have not read their hello yet. */
  readonly #awaitingHello = new Set<DashboardSocket>()
  /** By run id, the number of subscribers; nothing is published for a run without any. */
  readonly #subscriberCounts = new Map<string, number>()
  /** Since the first socket that is sent what has changed. */
  #tickets: ChangedTickets | undefined
  /** The host makes no pushes while nobody listens. */
  #stopListening: Cancel | undefined

  /** Registers the socket with the listener. @param upgrade admits or refuses a connection */
  constructor(app: ListenerApp, path: string, upgrade: Upgrade, options: DashboardSocketsOptions) {
    this.#app = app
    this.#options = options
    app.ws<DashboardSocketData>(path, {
      maxPayloadLength: FRAME_BYTES_READ_MAX,
      maxBackpressure: DASHBOARD_BACKLOG_BYTES_MAX,
      idleTimeout: SOCKET_IDLE_SECONDS,
      sendPingsAutomatically: true,
      upgrade,
      open: (socket) => this.#onOpen(socket),
      message: (socket, bytes, isBinary) =>
        withDashboard(socket, (dashboard) => this.#onMessage(dashboard, bytes, isBinary)),
      ping: (socket) => withDashboard(socket, (dashboard) => void dashboard.exceedsFrameRate()),
      dropped: (socket) => withDashboard(socket, (dashboard) => this.#onDropped(dashboard)),
      drain: (socket) => withDashboard(socket, (dashboard) => this.#onDrained(dashboard)),
      close: (socket) => withDashboard(socket, (dashboard) => this.#onClose(dashboard)),
    })
  }

  stop(): void {
    this.#stopListening?.()
    this.#stopListening = undefined
    this.#tickets = undefined
  }

  /** Whether another dashboard may connect. */
  hasCapacity(): boolean {
    return this.#dashboards.size < DASHBOARD_SOCKETS_MAX
  }

  count(): number {
    return this.#dashboards.size
  }

  closeAll(code: number, reason: string): void {
    for (const dashboard of [...this.#dashboards]) dashboard.sender.closeAfterDrain(code, reason)
  }

  #onOpen(socket: ServerSocket<DashboardSocketData>): void {
    const dashboard = new DashboardSocket(socket, this.#options.clock)
    socket.getUserData().dashboard = dashboard
    this.#dashboards.add(dashboard)
    this.#reportCount()
    try {
      // Nothing happens between this and the hello, which has all that is on disk: every later commit is pushed.
      this.#stopListening ??= this.#options.hostApi.onPush((push) => this.#publish(push))
      dashboard.sendHello(JSON.stringify(this.#helloOf(dashboard)))
      const attention: DashboardPush = { type: 'attention', ...this.#options.hostApi.attention() }
      if (dashboard.isLive) dashboard.sender.send(JSON.stringify(attention))
      else {
        this.#awaitingHello.add(dashboard)
        this.#queuePush(dashboard, { runId: undefined, text: Buffer.from(JSON.stringify(attention)) })
      }
    } catch (err) {
      this.#options.log.error({ err }, 'could not send the hello to a dashboard')
      dashboard.sender.closeAfterDrain(CLOSE.failed, SERVICE_FAILED)
    }
  }

  #helloOf({ form }: DashboardSocket): object {
    const { hostApi } = this.#options
    if (form === 'whole') return hostApi.hello()
    this.#tickets ??= new ChangedTickets(hostApi.tickets())
    return hostApi.changesHello()
  }

  #onClose(dashboard: DashboardSocket): void {
    dashboard.sender.onClosed()
    this.#dashboards.delete(dashboard)
    this.#awaitingHello.delete(dashboard)
    for (const runId of dashboard.subscribedRuns) this.#removeSubscriber(runId)
    if (this.#dashboards.size === 0) this.stop()
    this.#reportCount()
  }

  #onMessage(dashboard: DashboardSocket, bytes: ArrayBuffer, isBinary: boolean): void {
    if (!dashboard.sender.isOpen || dashboard.exceedsFrameRate()) return
    const request = readFrame(bytes, isBinary)
    if (!request.ok) dashboard.sender.closeAfterDrain(request.code, request.error)
    else if (request.value.type === 'subscribe') this.#subscribe(dashboard, request.value)
    else this.#unsubscribe(dashboard, request.value.runId)
  }

  #subscribe(dashboard: DashboardSocket, { runId, confirm }: SubscribeRequest): void {
    if (!dashboard.subscribedRuns.has(runId)) this.#addSubscription(dashboard, runId)
    if (confirm !== true) return
    const subscribed: SubscribedFrame = {
      type: 'subscribed',
      runId,
      next: this.#options.hostApi.nextEventIndex(runId),
    }
    dashboard.sender.send(JSON.stringify(subscribed))
  }

  #addSubscription(dashboard: DashboardSocket, runId: string): void {
    if (dashboard.subscribedRuns.size >= DASHBOARD_SUBSCRIPTIONS_MAX) {
      dashboard.sender.closeAfterDrain(
        CLOSE.policy,
        `at most ${DASHBOARD_SUBSCRIPTIONS_MAX} runs can be subscribed to`,
      )
      return
    }
    this.#subscriberCounts.set(runId, (this.#subscriberCounts.get(runId) ?? 0) + 1)
    dashboard.subscribe(runId)
  }

  #unsubscribe(dashboard: DashboardSocket, runId: string): void {
    if (!dashboard.subscribedRuns.has(runId)) return
    this.#removeSubscriber(runId)
    dashboard.unsubscribe(runId)
  }

  #removeSubscriber(runId: string): void {
    const left = (this.#subscriberCounts.get(runId) ?? 0) - 1
    if (left > 0) this.#subscriberCounts.set(runId, left)
    else this.#subscriberCounts.delete(runId)
  }

  #publish(push: OutgoingPush): void {
    if (push.type === 'run-event') {
      this.#publishEvent(push)
      return
    }
    const changes = this.#changesOf(push)
    const text = this.#publishTo('whole', () => Buffer.from(JSON.stringify(push)))
    if (changes !== undefined)
      this.#publishTo('changes', () => (changes === push && text) || Buffer.from(JSON.stringify(changes)))
  }

  #publishEvent({ runId, json }: EventPush): void {
    this.#app.publish(TOPIC_EVENTS, json)
    if (this.#subscriberCounts.has(runId)) this.#app.publish(runTopic(runId), json)
    for (const dashboard of this.#awaitingHello) this.#queuePush(dashboard, { runId, text: json })
  }

  /** Returns the text, unless there is no socket of this form. */
  #publishTo(form: DashboardForm, encode: () => Uint8Array): Uint8Array | undefined {
    if (![...this.#dashboards].some((dashboard) => dashboard.form === form)) return undefined
    const text = encode()
    this.#app.publish(TOPIC_OF[form], text)
    for (const dashboard of this.#awaitingHello)
      if (dashboard.form === form) this.#queuePush(dashboard, { runId: undefined, text })
    return text
  }

  /** Undefined when nothing has changed. */
  #changesOf(push: Exclude<OutgoingPush, EventPush>): ChangesFrame | undefined {
    if (push.type === 'run-updated') return { type: 'runs-changed', changed: [push.run], removed: [] }
    return push.type === 'tickets' ? this.#tickets?.compare(push.tickets) : push
  }

  #queuePush(dashboard: DashboardSocket, encoded: EncodedPush): void {
    if (dashboard.queuePush(encoded)) return
    this.#awaitingHello.delete(dashboard)
    this.#closeAsTooSlow(dashboard)
  }

  /** The library dropped a push for a full backlog. The library is iterating over its topics, so change them only afterwards. */
  #onDropped(dashboard: DashboardSocket): void {
    this.#options.clock.endOfTick(() => this.#closeAsTooSlow(dashboard))
  }

  #closeAsTooSlow(dashboard: DashboardSocket): void {
    if (!dashboard.sender.isOpen) return
    this.#options.meters.count('sockets_cut_off_total', LABELS)
    dashboard.closeAsTooSlow()
  }

  #onDrained(dashboard: DashboardSocket): void {
    dashboard.onDrained()
    if (dashboard.isLive) this.#awaitingHello.delete(dashboard)
  }

  #reportCount(): void {
    this.#options.meters.gauge('sockets', this.#dashboards.size, LABELS)
  }
}

function withDashboard(
  socket: ServerSocket<DashboardSocketData>,
  run: (dashboard: DashboardSocket) => void,
): void {
  const { dashboard } = socket.getUserData()
  if (dashboard !== undefined) run(dashboard)
}

// ---- frames --------------------------------------------------------------------------------------------------------

type SubscribeRequest = Extract<DashboardRequest, { readonly type: 'subscribe' }>

type RequestResult =
  | { readonly ok: true; readonly value: DashboardRequest }
  | { readonly ok: false; readonly code: number; readonly error: string }

const readRequest = createChecker(DashboardRequest)

function readFrame(bytes: ArrayBuffer, isBinary: boolean): RequestResult {
  if (isBinary) return { ok: false, code: CLOSE.badData, error: 'frames are JSON text, not binary' }
  if (bytes.byteLength > DASHBOARD_FRAME_BYTES_MAX) {
    return { ok: false, code: CLOSE.tooBig, error: `a frame has at most ${DASHBOARD_FRAME_BYTES_MAX} bytes` }
  }
  const parsed = parseJson(Buffer.from(bytes).toString())
  const request = parsed.ok ? readRequest(parsed.value) : parsed
  if (request.ok) return request
  return { ok: false, code: CLOSE.policy, error: request.error.replace(/^\/: /, 'a frame ') }
}

// ---- changed tickets -----------------------------------------------------------------------------------------------

/**
 * Compares each list of eligible tickets with the one before, for sockets that are sent what changed. A ticket that
 * nobody edited has the same values in both lists, which may be in another object.
 */
class ChangedTickets {
  #known: ReadonlyMap<string, Ticket>

  constructor(tickets: readonly Ticket[]) {
    this.#known = byId(tickets)
  }

  /** Undefined when nothing changed. */
  compare(tickets: readonly Ticket[]): TicketsChangedPush | undefined {
    const before = this.#known
    const known = byId(tickets)
    this.#known = known
    const changed = tickets.filter((ticket) => !isSame(ticket, before.get(ticket.id)))
    const removed = [...before.keys()].filter((id) => !known.has(id))
    if (changed.length + removed.length === 0) return undefined
    return { type: 'tickets-changed', changed, removed }
  }
}

const isSame = (ticket: Ticket, before: Ticket | undefined): boolean =>
  before !== undefined &&
  (ticket === before ||
    ([...Object.keys(ticket), ...Object.keys(before)] as (keyof Ticket)[]).every(
      (key) => ticket[key] === before[key],
    ))

const byId = (tickets: readonly Ticket[]): Map<string, Ticket> =>
  new Map(tickets.map((ticket) => [ticket.id, ticket]))
