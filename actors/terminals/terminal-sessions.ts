/**
 * TerminalSessions has workers boot retained sandboxes for people, and relays input and output of their terminals.
 *
 * A sandbox is booted once, however many people ask for it, and released when no terminal shows it any more. The host
 * holds neither a terminal nor a session: both live on the worker. Credentials are read from the configuration when a
 * boot order is sent and are not kept. All state is in memory; `terminal-session.machine.ts` holds the states.
 */

import { parseBootRefusal } from '../../core/daemon/terminal.ts'
import { uuidv7Hex } from '../../core/ids.ts'
import type { ViewReceiver, ViewSender } from '../../core/ports/connections.ts'
import { no, type Refusal, type Result, SERVICE_FAILED, yes } from '../../core/result.ts'
import type { AttachData } from '../../protocol/attach-text.ts'
import type { RunCredentials, WorkerFrame, WorkerFrameOf } from '../../protocol/frames.ts'
import { ATTACH_VIEWS_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { HostContext } from '../host-context.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { timerKind } from '../runtime/timer-kind.ts'
import type { WorkerConnections } from '../workers/worker-connections.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import {
  SESSION_END_REASONS,
  TERMINAL_SESSION,
  type TerminalSessionContext,
  type TerminalSessionEffect,
  type TerminalSessionEvent,
  type TerminalSessionInput,
} from './terminal-session.machine.ts'
import { TerminalView } from './terminal-view.ts'

export const ATTACH_VIEWS_PER_RUN_MAX = 16
/**
 * How long a booted sandbox without viewers stays, so that a page can be reloaded. Shorter than the worker's own
 * limit.
 */
export const ATTACH_GRACE_MS = 20_000
/** Time limit for booting a sandbox. */
export const ATTACH_BOOT_MS_MAX = 60_000
/** Releases that wait for a disconnected worker, per worker; more than a worker can have booted sandboxes. */
const RELEASES_UNSENT_MAX = 256
/** Time from the end of a session until all viewers are notified. */
const ATTACH_EXIT_MS_MAX = 5_000

export interface TerminalSessionsPorts
  extends Pick<HostContext, 'clock' | 'random' | 'log' | 'system' | 'timers' | 'timeouts' | 'publish'> {
  readonly workers: WorkerRegistry
  readonly connections: WorkerConnections
  /** The agent's credentials, from the configuration in force. */
  readonly credentials: () => RunCredentials
  /** The worker names the agent's session that goes on in a booted sandbox. */
  readonly onSessionNamed: (held: RetainedSandbox, sessionId: string) => void
}

/** A retained sandbox and the worker that holds it. */
export interface RetainedSandbox {
  readonly runId: string
  readonly workerId: string
}

/** The frames in which a worker reports about resumed sandboxes and their terminals. */
export type TerminalFrame = Extract<WorkerFrame, { readonly type: `attach-${string}` | `sandbox-${string}` }>

interface ActiveSession extends RetainedSandbox {
  readonly requestId: string
  readonly views: Set<TerminalView>
  /** Resolves when the session can be shown, or with the reason why it cannot. */
  readonly ready: Promise<Result<void>>
  readonly resolveReady: (answer: Result<void>) => void
  /** Exit code of the session's process, once it ended. */
  exitCode: number | undefined
}

/** A timer has the name of the state that it bounds. */
export const TERMINAL_SESSION_TIMER = timerKind<string>('attach')
const CLOSE_GOING_AWAY = 1001
const CLOSE_POLICY = 1008
const CLOSE_FAILED = 1011
const CLOSE_TRY_AGAIN = 1013

export class TerminalSessions {
  readonly #ports: TerminalSessionsPorts
  readonly #sessions = new Map<string, ActiveSession>()
  /** Every open view by its session id, including those that still wait for their sandbox to boot. */
  readonly #views = new Map<string, TerminalView>()
  /**
   * By worker: runs whose release could not be sent while the worker was disconnected. A restart forgets them, because
   * a worker that is disconnected for longer than its own grace period closes its sandboxes by itself.
   */
  readonly #unsentReleases = new Map<string, Set<string>>()

  constructor(ports: TerminalSessionsPorts) {
    this.#ports = ports
  }

  // ---- queries -----------------------------------------------------------------------------------------------------

  isBooted(runId: string): boolean {
    return this.#sessions.has(runId)
  }

  get size(): number {
    return this.#sessions.size
  }

  get views(): number {
    return this.#views.size
  }

  /** Number of views on sandboxes that this worker has booted or is booting. */
  viewCountOn(workerId: string): number {
    return this.runsByWorker().get(workerId)?.length ?? 0
  }

  /** By worker, the run of each view on a sandbox that the worker has booted or is booting. */
  runsByWorker(): ReadonlyMap<string, readonly string[]> {
    const runs = new Map<string, string[]>()
    for (const { runId } of this.#views.values()) {
      const workerId = this.#sessions.get(runId)?.workerId
      if (workerId === undefined) continue
      const known = runs.get(workerId)
      if (known === undefined) runs.set(workerId, [runId])
      else known.push(runId)
    }
    return runs
  }

  // ---- requests of people ------------------------------------------------------------------------------------------

  /** Resolves when the session can be shown. The caller has checked that the run may be resumed. */
  boot(held: RetainedSandbox): Promise<Result<void>> {
    const known = this.#sessions.get(held.runId) ?? this.#start(held)
    if (known.exitCode === undefined) return known.ready
    return Promise.resolve(no('conflict', `the session of ${held.runId} has just ended; try again`))
  }

  /**
   * Ends the session, if there is one. The worker is told in any case: it may have booted the sandbox for an earlier
   * process of the host, and ignores a release of a sandbox that is not booted.
   */
  release(runId: string, workerId: string | undefined): void {
    if (this.isBooted(runId))
      this.#sendEvent(runId, { type: 'released', reason: SESSION_END_REASONS.released })
    else if (workerId !== undefined) this.#sendRelease({ runId, workerId })
  }

  /** Opens a view. `resume` has the sandbox booted or answers why it cannot be. */
  attach(runId: string, link: ViewSender, resume: () => Promise<Result<unknown>>): ViewReceiver {
    const { random, clock, connections } = this.#ports
    const sessionId = `as-${uuidv7Hex(clock.now(), random.bytes(10))}`
    const view = new TerminalView(runId, sessionId, link, {
      after: (ms, run) => clock.after(ms, run),
      connections,
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
    // The person may have closed the terminal meanwhile.
    else if (this.#views.has(view.sessionId)) this.#addView(session, view)
  }

  /** Closes the one view that failed, so that an error in it does not stop the host. */
  #onJoinFailed(view: TerminalView, err: unknown): void {
    this.#ports.log.error({ err, run: view.runId }, 'a terminal could not be opened')
    view.closeWithError(SERVICE_FAILED, CLOSE_FAILED)
  }

  #addView(session: ActiveSession, view: TerminalView): void {
    session.views.add(view)
    this.#sendEvent(session.runId, { type: 'watched' })
    view.join(session.workerId)
    this.#ports.publish({ view: 'terminals' })
  }

  #onViewLeft(view: TerminalView): void {
    this.#views.delete(view.sessionId)
    this.#ports.publish({ view: 'terminals' })
    const session = this.#sessions.get(view.runId)
    if (session?.views.delete(view) === true && session.views.size === 0)
      this.#sendEvent(view.runId, { type: 'unwatched' })
  }

  // ---- frames of workers -------------------------------------------------------------------------------------------

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

  /** Handles terminal output, the most frequent frame, which has a reader of its own for speed. */
  onOutput(workerId: string, { sessionId, data, json }: AttachData): void {
    this.#viewOf(workerId, sessionId)?.onOutput(data, json)
  }

  #onBootAnswer(
    workerId: string,
    frame: WorkerFrameOf<'sandbox-ready'> | WorkerFrameOf<'sandbox-failed'>,
  ): void {
    for (const session of this.#sessions.values()) {
      if (session.requestId !== frame.requestId || session.workerId !== workerId) continue
      if (frame.type === 'sandbox-ready') this.#onReady(session, frame.sessionId)
      else this.#onBootFailed(session, printable(frame.message))
      return
    }
  }

  #onReady({ runId, workerId }: ActiveSession, sessionId: string | undefined): void {
    if (sessionId !== undefined) this.#ports.onSessionNamed({ runId, workerId }, sessionId)
    this.#sendEvent(runId, { type: 'ready' })
  }

  #onBootFailed({ runId, resolveReady }: ActiveSession, message: string): void {
    const refused = parseBootRefusal(message)
    resolveReady(refused)
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
   * Closes a view that the worker refused, and the session with it when the worker no longer has the session. The
   * worker no longer has it when it refuses a view that already showed output, or when no view shows output.
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

  // ---- connections of workers ---------------------------------------------------------------------------------------

  onConnectionLost(workerId: string): void {
    this.#sendEventToAll(workerId, { type: 'connection lost' })
  }

  onConnectionRestored(workerId: string): void {
    const unsent = this.#unsentReleases.get(workerId) ?? []
    this.#unsentReleases.delete(workerId)
    for (const runId of unsent)
      if (!this.isBooted(runId))
        this.#ports.connections.sendToWorker(workerId, { type: 'sandbox-release', runId })
    this.#sendEventToAll(workerId, { type: 'connection restored' })
  }

  onWorkerRemoved(workerId: string): void {
    this.#unsentReleases.delete(workerId)
    this.#sendEventToAll(workerId, { type: 'worker removed' })
  }

  #sendEventToAll(workerId: string, event: TerminalSessionEvent): void {
    for (const session of [...this.#sessions.values()])
      if (session.workerId === workerId) this.#sendEvent(session.runId, event)
  }

  // ---- changes of session actors ------------------------------------------------------------------------------------

  onStateChange({ key, before, after, over }: StateChange<TerminalSessionContext>): void {
    const session = this.#sessions.get(key)
    if (session === undefined) return
    if (over) this.#onEnded(session, after.context.reason)
    else if (before?.value !== after.value) this.#onStateEntered(session, String(after.value))
  }

  #onStateEntered(session: ActiveSession, state: string): void {
    const { timers } = this.#ports
    timers.cancelAll(TERMINAL_SESSION_TIMER.key(session.runId))
    const ms = this.#stateTimeoutMs(state)
    if (ms !== undefined) timers.set(TERMINAL_SESSION_TIMER.key(session.runId), state, timers.now() + ms)
    if (state === 'unwatched') session.resolveReady(yes(undefined))
    if (state === 'disconnected') for (const view of [...session.views]) view.onConnectionLost()
  }

  /** How long the session may stay in this state; undefined means without limit. */
  #stateTimeoutMs(state: string): number | undefined {
    if (state === 'booting') return ATTACH_BOOT_MS_MAX
    if (state === 'unwatched') return ATTACH_GRACE_MS
    if (state === 'ending') return ATTACH_EXIT_MS_MAX
    return state === 'disconnected' ? this.#ports.timeouts().reconnectGraceSeconds * 1000 : undefined
  }

  onTimer(runId: string): void {
    this.#sendEvent(runId, { type: 'timed out' })
  }

  #onEnded(session: ActiveSession, reason: string): void {
    this.#sessions.delete(session.runId)
    this.#ports.timers.cancelAll(TERMINAL_SESSION_TIMER.key(session.runId))
    this.#ports.log.info(
      { run: session.runId, worker: session.workerId, reason },
      'a resumed sandbox was closed',
    )
    session.resolveReady(no('conflict', reason))
    for (const view of [...session.views]) {
      if (session.exitCode === undefined) view.closeWithError(reason)
      else view.onExit(session.exitCode)
    }
  }

  // ---- effects -----------------------------------------------------------------------------------------------------

  runEffect(effect: TerminalSessionEffect): void {
    const session = this.#sessions.get(effect.runId)
    if (effect.type === 'attach.send release') this.#sendRelease(effect)
    else if (session === undefined) return
    else if (effect.type === 'attach.send boot') this.#sendBoot(session, effect.requestId)
    else for (const view of [...session.views]) view.open()
  }

  /** Sends the boot order unless a newer session of the same run has replaced the one that asked for it. */
  #sendBoot({ runId, workerId, requestId }: ActiveSession, wantedRequestId: string): void {
    if (requestId !== wantedRequestId) return
    const { credentials, connections } = this.#ports
    const sent = connections.sendToWorker(workerId, {
      type: 'sandbox-boot',
      requestId,
      runId,
      credentials: credentials(),
    })
    if (!sent) this.#sendEvent(runId, { type: 'connection lost' })
  }

  #sendRelease({ runId, workerId }: RetainedSandbox): void {
    const { workers, connections } = this.#ports
    if (connections.sendToWorker(workerId, { type: 'sandbox-release', runId })) return
    if (workers.get(workerId) === undefined) return
    const unsent = this.#unsentReleases.get(workerId) ?? new Set<string>()
    this.#unsentReleases.set(workerId, unsent.add(runId))
    const [oldest] = unsent
    if (unsent.size > RELEASES_UNSENT_MAX && oldest !== undefined) unsent.delete(oldest)
  }

  /** Closes all views. The sessions continue on their workers, so a person who returns soon finds them unchanged. */
  stop(): void {
    const reason = 'the service is stopping'
    for (const view of [...this.#views.values()]) view.close(CLOSE_GOING_AWAY, reason)
    for (const session of this.#sessions.values()) session.resolveReady(no('unavailable', reason))
  }

  #start(held: RetainedSandbox): ActiveSession {
    const { random, clock, system, log } = this.#ports
    const { runId, workerId } = held
    const requestId = `bt-${uuidv7Hex(clock.now(), random.bytes(10))}`
    let resolveReady: ActiveSession['resolveReady'] = () => {}
    const ready = new Promise<Result<void>>((resolve) => {
      resolveReady = resolve
    })
    const session: ActiveSession = {
      ...held,
      requestId,
      views: new Set(),
      ready,
      resolveReady,
      exitCode: undefined,
    }
    this.#sessions.set(runId, session)
    const input: TerminalSessionInput = { runId, workerId, requestId }
    log.info({ run: runId, worker: workerId }, 'a sandbox is being resumed for a person')
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
