/**
 * Sandboxes that are booted for people, and the terminals through which they look at them.
 *
 * The host holds no terminal and no session: it has a sandbox booted, once however many ask for it, passes on what is
 * typed and what is printed, and sees to it that nothing stays booted that nobody looks at. Credentials are taken from
 * the configuration at the moment they are sent, and kept nowhere. All of it is in memory only.
 */
import { parseBootRefusal } from '../../core/daemon/resume-refusal.ts'
import { uuidv7Hex } from '../../core/ids.ts'
import type { LeaseTimeouts } from '../../core/lease/deadline.ts'
import type { Clock, Log, RandomSource } from '../../core/ports.ts'
import { no, type Refusal, type Result, yes } from '../../core/result.ts'
import type { AttachData } from '../../protocol/attach-text.ts'
import type { RunCredentials, WorkerFrame, WorkerFrameOf } from '../../protocol/frames.ts'
import {
  ATTACH_BOOT_MS_MAX,
  ATTACH_EXIT_MS_MAX,
  ATTACH_GRACE_MS,
  ATTACH_VIEWS_MAX,
  ATTACH_VIEWS_PER_RUN_MAX,
} from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { ViewLine, ViewLink } from '../api/host-api.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import type { WorkerConnections } from '../workers/worker-connections.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import type {
  TerminalSessionContext,
  TerminalSessionEffect,
  TerminalSessionEvent,
  TerminalSessionInput,
} from './terminal-session.machine.ts'
import { TERMINAL_SESSION } from './terminal-session.names.ts'
import { type SessionSender, TerminalView } from './terminal-view.ts'

export interface TerminalSessionsPorts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly system: ActorSystem
  readonly workers: WorkerRegistry
  readonly timers: MonotonicTimers
  readonly connections: WorkerConnections
  readonly timeouts: () => LeaseTimeouts
  /** For the agent, as the configuration has it now. */
  readonly credentials: () => RunCredentials
}

/** A retained sandbox, and who holds it. */
export interface RetainedSandbox {
  readonly runId: string
  readonly workerId: string
}

/** What a worker says of booted sandboxes and terminals. */
export type TerminalFrame = Extract<WorkerFrame, { readonly type: `attach-${string}` | `sandbox-${string}` }>

interface ActiveSession extends RetainedSandbox {
  readonly requestId: string
  readonly sender: SessionSender
  readonly views: Set<TerminalView>
  /** Resolves once it is ready to be looked at, or never will be. */
  readonly ready: Promise<Result<void>>
  readonly resolveReady: (answer: Result<void>) => void
  /** How its session's process ended. */
  exitCode: number | undefined
}

const TIMER_PREFIX = 'attach '
const timerKeyOf = (runId: string): string => TIMER_PREFIX + runId
const CLOSE_GOING_AWAY = 1001
const CLOSE_POLICY = 1008
const CLOSE_FAILED = 1011
const CLOSE_TRY_AGAIN = 1013

export class TerminalSessions {
  readonly #ports: TerminalSessionsPorts
  readonly #sessions = new Map<string, ActiveSession>()
  /** Every view there is, those included that wait for a sandbox to be booted; by its session's id. */
  readonly #views = new Map<string, TerminalView>()
  /** By worker: released while it was away, and to be told when it is back. */
  readonly #unsentReleases = new Map<string, Set<string>>()

  constructor(ports: TerminalSessionsPorts) {
    this.#ports = ports
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  isBooted(runId: string): boolean {
    return this.#sessions.has(runId)
  }

  get size(): number {
    return this.#sessions.size
  }

  get views(): number {
    return this.#views.size
  }

  /** Of sandboxes that this worker has booted, or is about to. */
  viewCountOn(workerId: string): number {
    let count = 0
    for (const { runId } of this.#views.values())
      if (this.#sessions.get(runId)?.workerId === workerId) count += 1
    return count
  }

  // ---- what people want --------------------------------------------------------------------------------------------

  /** Answered once its session can be looked at. Whether that is allowed was asked before. */
  boot(held: RetainedSandbox): Promise<Result<void>> {
    const known = this.#sessions.get(held.runId) ?? this.#start(held)
    if (known.exitCode === undefined) return known.ready
    return Promise.resolve(no('conflict', `the session of ${held.runId} has just ended; try again`))
  }

  release(runId: string): void {
    this.#sendEvent(runId, { type: 'released', reason: 'the session was released' })
  }

  /** `resume`: has its sandbox booted, or says why not. */
  attach(runId: string, link: ViewLink, resume: () => Promise<Result<unknown>>): ViewLine {
    const { random, clock } = this.#ports
    const sessionId = `as-${uuidv7Hex(clock.now(), random.bytes(10))}`
    const view = new TerminalView(runId, sessionId, link, {
      after: (ms, run) => clock.after(ms, run),
      onLeft: (leftView) => this.#onViewLeft(leftView),
    })
    const limitReached = this.#limitReached(runId)
    this.#views.set(sessionId, view)
    if (limitReached === undefined)
      void this.#join(view, resume).catch((err) => this.#onJoinFailed(view, err))
    else view.closeWithError(limitReached, CLOSE_TRY_AGAIN)
    return view
  }

  #limitReached(runId: string): string | undefined {
    if (this.#views.size >= ATTACH_VIEWS_MAX)
      return `${ATTACH_VIEWS_MAX} terminals are open already; close one`
    const own = [...this.#views.values()].filter((view) => view.runId === runId)
    if (own.length < ATTACH_VIEWS_PER_RUN_MAX) return undefined
    return `${ATTACH_VIEWS_PER_RUN_MAX} terminals of this run are open already; close one`
  }

  async #join(view: TerminalView, resume: () => Promise<Result<unknown>>): Promise<void> {
    const resumed = await resume()
    const session = this.#sessions.get(view.runId)
    if (!resumed.ok) view.closeWithError(resumed.refusal.message, closeCodeOf(resumed.refusal))
    else if (session === undefined || session.exitCode !== undefined)
      view.closeWithError('the session ended before it could be shown; try again')
    // Its person may not have waited.
    else if (this.#views.has(view.sessionId)) this.#addView(session, view)
  }

  /** It costs one person a view, and not everybody the service. */
  #onJoinFailed(view: TerminalView, err: unknown): void {
    this.#ports.log.error({ err, run: view.runId }, 'a terminal could not be opened')
    view.closeWithError('the service failed; its log says why', CLOSE_FAILED)
  }

  #addView(session: ActiveSession, view: TerminalView): void {
    session.views.add(view)
    this.#sendEvent(session.runId, { type: 'watched' })
    view.join(session.sender)
  }

  #onViewLeft(view: TerminalView): void {
    this.#views.delete(view.sessionId)
    const session = this.#sessions.get(view.runId)
    if (session?.views.delete(view) === true && session.views.size === 0)
      this.#sendEvent(view.runId, { type: 'unwatched' })
  }

  // ---- what workers say --------------------------------------------------------------------------------------------

  onFrame(workerId: string, frame: TerminalFrame): void {
    switch (frame.type) {
      case 'sandbox-ready':
      case 'sandbox-failed':
        this.#onBootAnswer(workerId, frame)
        return
      case 'attach-data':
        this.#viewOf(workerId, frame.sessionId)?.onOutput(frame.data)
        return
      case 'attach-exit':
        this.#onExit(workerId, frame)
        return
      case 'attach-error':
        this.#onError(workerId, frame)
        return
      case 'attach-taken':
        this.#viewOf(workerId, frame.sessionId)?.onInputCount(frame.inputs)
        return
    }
  }

  /** By far the most that workers say, and read in a way of its own. */
  onOutput(workerId: string, { sessionId, data, json }: AttachData): void {
    this.#viewOf(workerId, sessionId)?.onOutput(data, json)
  }

  #onBootAnswer(
    workerId: string,
    frame: WorkerFrameOf<'sandbox-ready'> | WorkerFrameOf<'sandbox-failed'>,
  ): void {
    for (const session of this.#sessions.values()) {
      if (session.requestId !== frame.requestId || session.workerId !== workerId) continue
      if (frame.type === 'sandbox-ready') this.#sendEvent(session.runId, { type: 'ready' })
      else this.#onBootFailed(session, printable(frame.message))
      return
    }
  }

  #onBootFailed({ runId, resolveReady: settle }: ActiveSession, message: string): void {
    const refused = parseBootRefusal(message)
    settle(refused)
    this.#sendEvent(runId, { type: 'failed', reason: refused.refusal.message })
  }

  #viewOf(workerId: string, sessionId: string): TerminalView | undefined {
    const view = this.#views.get(sessionId)
    return view?.workerId === workerId ? view : undefined
  }

  #onExit(workerId: string, { sessionId, code }: WorkerFrameOf<'attach-exit'>): void {
    const view = this.#viewOf(workerId, sessionId)
    const session = view === undefined ? undefined : this.#sessions.get(view.runId)
    if (view === undefined || session === undefined) return
    session.exitCode = code
    this.#sendEvent(view.runId, { type: 'exited' })
    view.onExit(code)
  }

  /**
   * A view that was shown the terminal is dismissed: so is everybody. One that never was concerns nobody else, unless
   * nobody is shown anything: then the worker does not have the session any more.
   */
  #onError(workerId: string, { sessionId, message }: WorkerFrameOf<'attach-error'>): void {
    const view = this.#viewOf(workerId, sessionId)
    const session = view === undefined ? undefined : this.#sessions.get(view.runId)
    if (view === undefined || session === undefined) return
    const isOver = view.isLive || ![...session.views].some(({ isLive: live }) => live)
    const reason = printable(message)
    view.closeWithError(reason)
    if (isOver) this.#sendEvent(view.runId, { type: 'failed', reason })
  }

  // ---- workers come and go -----------------------------------------------------------------------------------------

  onConnectionLost(workerId: string): void {
    this.#sendEventToAll(workerId, { type: 'line lost' })
  }

  onConnectionRestored(workerId: string): void {
    const unsent = this.#unsentReleases.get(workerId) ?? []
    this.#unsentReleases.delete(workerId)
    for (const runId of unsent)
      if (!this.isBooted(runId))
        this.#ports.connections.sendToWorker(workerId, { type: 'sandbox-release', runId })
    this.#sendEventToAll(workerId, { type: 'line back' })
  }

  onWorkerRemoved(workerId: string): void {
    this.#unsentReleases.delete(workerId)
    this.#sendEventToAll(workerId, { type: 'worker left' })
  }

  #sendEventToAll(workerId: string, event: TerminalSessionEvent): void {
    for (const session of [...this.#sessions.values()])
      if (session.workerId === workerId) this.#sendEvent(session.runId, event)
  }

  // ---- following the lives -----------------------------------------------------------------------------------------

  onStateChange({ key, before, after, over }: StateChange): void {
    const session = this.#sessions.get(key)
    if (session === undefined) return
    if (over) this.#onEnded(session, (after.context as TerminalSessionContext).reason)
    else if (before?.value !== after.value) this.#onStateEntered(session, String(after.value))
  }

  #onStateEntered(session: ActiveSession, state: string): void {
    const { timers } = this.#ports
    timers.cancelAll(timerKeyOf(session.runId))
    const ms = this.#stateTimeoutMs(state)
    if (ms !== undefined) timers.set(timerKeyOf(session.runId), state, timers.now() + ms)
    if (state === 'unwatched') session.resolveReady(yes(undefined))
    if (state === 'waiting') for (const view of [...session.views]) view.onConnectionLost()
  }

  /** How long a state may last; `undefined`: as long as it likes. */
  #stateTimeoutMs(state: string): number | undefined {
    if (state === 'booting') return ATTACH_BOOT_MS_MAX
    if (state === 'unwatched') return ATTACH_GRACE_MS
    if (state === 'ending') return ATTACH_EXIT_MS_MAX
    return state === 'waiting' ? this.#ports.timeouts().reconnectGraceSeconds * 1000 : undefined
  }

  /** An alarm that was set here came due. */
  onTimer(key: string): void {
    this.#sendEvent(key.slice(TIMER_PREFIX.length), { type: 'time over' })
  }

  #onEnded(session: ActiveSession, reason: string): void {
    this.#sessions.delete(session.runId)
    this.#ports.timers.cancelAll(timerKeyOf(session.runId))
    this.#ports.log.info(
      { run: session.runId, worker: session.workerId, reason },
      'a sandbox is not booted any more',
    )
    session.resolveReady(no('conflict', reason))
    for (const view of [...session.views]) {
      if (session.exitCode === undefined) view.closeWithError(reason)
      else view.onExit(session.exitCode)
    }
  }

  // ---- what is done ------------------------------------------------------------------------------------------------

  runEffect(effect: TerminalSessionEffect): void {
    const session = this.#sessions.get(effect.runId)
    if (effect.type === 'attach.release') this.#sendRelease(effect)
    else if (session === undefined) return
    else if (effect.type === 'attach.boot') this.#sendBoot(session, effect.requestId)
    else for (const view of [...session.views]) view.open()
  }

  /** Not for one that was released in the breath in which it was asked for: the next one has an order of its own. */
  #sendBoot({ runId, workerId, requestId }: ActiveSession, wantedRequestId: string): void {
    if (requestId !== wantedRequestId) return
    const { credentials, connections } = this.#ports
    const sent = connections.sendToWorker(workerId, {
      type: 'sandbox-boot',
      requestId,
      runId,
      credentials: credentials(),
    })
    if (!sent) this.#sendEvent(runId, { type: 'line lost' })
  }

  #sendRelease({ runId, workerId }: RetainedSandbox): void {
    const { workers, connections } = this.#ports
    if (connections.sendToWorker(workerId, { type: 'sandbox-release', runId })) return
    if (workers.get(workerId) === undefined) return
    const unsent = this.#unsentReleases.get(workerId) ?? new Set()
    this.#unsentReleases.set(workerId, unsent.add(runId))
  }

  /** The service stops. The session itself may outlive that: whoever comes back soon finds it as it was. */
  stop(): void {
    const reason = 'the service is stopping'
    for (const view of [...this.#views.values()]) view.close(CLOSE_GOING_AWAY, reason)
    for (const session of this.#sessions.values()) session.resolveReady(no('unavailable', reason))
  }

  #start(held: RetainedSandbox): ActiveSession {
    const { random, clock, system, connections, log } = this.#ports
    const { runId, workerId } = held
    const requestId = `bt-${uuidv7Hex(clock.now(), random.bytes(10))}`
    let resolveReady: ActiveSession['resolveReady'] = () => {}
    const ready = new Promise<Result<void>>((resolve) => {
      resolveReady = resolve
    })
    const sender: SessionSender = {
      runId,
      workerId,
      send: (frame) => connections.sendToWorker(workerId, frame),
    }
    const session: ActiveSession = {
      ...held,
      requestId,
      sender,
      views: new Set(),
      ready,
      resolveReady,
      exitCode: undefined,
    }
    this.#sessions.set(runId, session)
    const input: TerminalSessionInput = { runId, workerId, requestId }
    log.info({ run: runId, worker: workerId }, 'a sandbox is booted for a person')
    const spawned = system.spawn(TERMINAL_SESSION, runId, input)
    if (!spawned.ok) {
      this.#sessions.delete(runId)
      resolveReady(spawned)
    }
    return session
  }

  #sendEvent(runId: string, event: TerminalSessionEvent): void {
    this.#ports.system.send(TERMINAL_SESSION, runId, event)
  }
}

const closeCodeOf = ({ kind }: Refusal): number => (kind === 'unavailable' ? CLOSE_TRY_AGAIN : CLOSE_POLICY)
