/**
 * Manages the resumed sandboxes of this worker, and passes the host's attach frames to their terminals.
 *
 * Credentials of a boot request stay in memory here until the executor boots the sandbox, and nowhere else. A request
 * for a booted sandbox is answered at once; a request during closing boots it again afterwards. The usage of a session
 * is sent when its sandbox closes, best effort: it belongs to no lease, so the outbox does not keep it.
 */

import type { Executor } from '../../core/daemon/ports.ts'
import type { BootedSandbox, CreateScreen, TerminalSize } from '../../core/daemon/terminal.ts'
import { formatBootRefusal } from '../../core/daemon/terminal.ts'
import type { Log } from '../../core/ports/log.ts'
import { no, type Result } from '../../core/result.ts'
import { truncate } from '../../core/safe-text.ts'
import { attachDataPrefix, attachDataText } from '../../protocol/attach-text.ts'
import type { HostFrameOf, RunCredentials, UsageSnapshot } from '../../protocol/frames.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import { messageOf } from '../../protocol/message-of.ts'
import { handleTimer, timerKind } from '../runtime/timer-kind.ts'
import { RESUMED_SANDBOX } from './daemon.names.ts'
import type { DaemonContext } from './daemon-context.ts'
import type {
  ResumedSandboxEffect,
  ResumedSandboxEvent,
  ResumedSandboxWait,
} from './resumed-sandbox.machine.ts'
import { type SessionEnding, TERMINAL_TIMER, TerminalBroadcast } from './terminal-broadcast.ts'

export interface ResumedSandboxesPorts extends Pick<DaemonContext, 'timers' | 'hostSender' | 'system'> {
  readonly log: Log
  readonly executor: Pick<Executor, 'boot'>
  readonly makeScreen: CreateScreen
  /** Why the sandbox of this run may not be booted now; undefined: it may. */
  readonly objection: (runId: string) => string | undefined
  /** Called when the number of resumed sandboxes may have changed. */
  readonly onChange: () => void
}

/** How long a session continues without a connection: as long as the host waits for an absent worker. */
const ADRIFT_MS = 120_000
/** How long a sandbox stays open without a view. After the last view only long enough for a page reload. */
const WAITS_MS: Readonly<Record<ResumedSandboxWait, number>> = {
  'sandbox.wait for a view': 120_000,
  'sandbox.wait for a return': 30_000,
  'sandbox.wait for the connection': ADRIFT_MS,
}
/** The most resumed sandboxes at once; each holds processes and a terminal. */
const SANDBOXES_MAX = 32
/** The most views of one sandbox; the host's own limit is lower. */
const VIEWS_MAX = 64
/** The most requests that may wait for one boot. */
const REQUESTS_MAX = 32
/** The most usage snapshots that wait for a connection. */
const UNSENT_USAGE_MAX = 64

/** The most bytes of final screens in the socket, because heartbeats wait behind them. */
const ENDINGS_BYTES_MAX = 4 * 1024 * 1024
/** How many ended sessions are remembered, to tell them apart from those that ended with an earlier daemon. */
const ENDED_MAX = 1_024

const RELEASED = 'the sandbox was closed'
const CLOSING = 'the session is being closed; attach again to continue it'
const CLOSED_MEANWHILE = 'the session was closed meanwhile; attach again to continue it'
/** The reason that people read when a restart of the worker ended their session. */
export const SESSION_LOST_IN_RESTART =
  'the worker was restarted, and the session ended with it; attach again to continue it'
const TOO_MANY = `${SANDBOXES_MAX} sandboxes are booted on this worker already; release one of them first`

/** The requests that wait for one boot. */
interface BootRequests {
  readonly requestIds: string[]
  credentials: RunCredentials | undefined
}

/** A sandbox from its boot request until it is closed completely. */
interface ResumedSandbox {
  /** The requests that wait for the boot. */
  requests?: BootRequests | undefined
  sandbox?: BootedSandbox | undefined
  terminal?: TerminalBroadcast | undefined
  /** The requests that wait for the sandbox to be closed and booted again. */
  later?: BootRequests | undefined
  /** The action to run when the sandbox is closed; no request is served then. */
  afterwards?: () => void
}

export class ResumedSandboxes {
  readonly #ports: ResumedSandboxesPorts
  /** By run id. */
  readonly #sandboxes = new Map<string, ResumedSandbox>()
  /** By run id, the sessions that this daemon has ended; with their last screen while views may ask for it. */
  readonly #ended = new Map<string, SessionEnding | undefined>()
  #unsentUsage: UsageSnapshot[] = []

  constructor(ports: ResumedSandboxesPorts) {
    this.#ports = ports
  }

  runEffect(effect: ResumedSandboxEffect): void {
    const { runId } = effect
    if (effect.type === 'sandbox.boot') void this.#boot(runId)
    else if (effect.type === 'sandbox.close') void this.#close(runId)
    else if (effect.type === 'sandbox.clean up') this.#cleanUp(runId)
    else this.#ports.timers.in(RESUMED_SANDBOX_TIMER.key(runId), 'up', WAITS_MS[effect.type])
  }

  // ---- queries ------------------------------------------------------------------------------------------------------

  /** True from the boot request until the sandbox is closed completely. */
  has(runId: string): boolean {
    return this.#sandboxes.has(runId)
  }

  get count(): number {
    return this.#sandboxes.size
  }

  get viewCount(): number {
    let views = 0
    for (const { terminal } of this.#sandboxes.values()) views += terminal?.viewCount ?? 0
    return views
  }

  // ---- booting and closing -----------------------------------------------------------------------------------------

  requestBoot(request: HostFrameOf<'sandbox-boot'>): void {
    const { requestId, runId, credentials } = request
    const known = this.#sandboxes.get(runId)
    if (known === undefined) this.#tryBoot(runId, { requestIds: [requestId], credentials })
    else if (this.#stateOf(runId) === 'booting') this.#join(known, 'requests', request)
    else if (this.#isClosing(runId)) this.#join(known, 'later', request)
    else {
      this.#send(runId, { type: 'boot requested again' })
      this.#sendReady(known, requestId)
    }
  }

  #tryBoot(runId: string, requests: BootRequests): void {
    const objection = this.#ports.objection(runId) ?? (this.count < SANDBOXES_MAX ? undefined : TOO_MANY)
    if (objection === undefined) this.#spawnActor(runId, requests)
    else this.#sendFailed(requests.requestIds, objection)
  }

  #join(
    known: ResumedSandbox,
    queue: 'requests' | 'later',
    { requestId, credentials }: HostFrameOf<'sandbox-boot'>,
  ): void {
    const requests = known[queue] ?? { requestIds: [], credentials }
    known[queue] = requests
    if (requests.requestIds.length < REQUESTS_MAX) requests.requestIds.push(requestId)
    else this.#sendFailed([requestId], 'too many requests for this sandbox at once; try again')
  }

  #spawnActor(runId: string, requests: BootRequests): void {
    this.#forgetEnding(runId)
    this.#sandboxes.set(runId, { requests })
    if (this.#ports.system.spawn(RESUMED_SANDBOX, runId, { runId }).ok) this.#ports.onChange()
    else {
      this.#sandboxes.delete(runId)
      this.#sendFailed(requests.requestIds, 'internal error: the sandbox could not be recorded')
    }
  }

  async #boot(runId: string): Promise<void> {
    const requests = this.#sandboxes.get(runId)?.requests
    const credentials = requests?.credentials ?? {}
    if (requests !== undefined) requests.credentials = undefined
    const answer = await this.#callBoot(runId, credentials)
    const known = this.#sandboxes.get(runId) ?? {}
    const { requestIds = [] } = known.requests ?? {}
    known.requests = undefined
    if (!answer.ok) {
      this.#sendFailed(requestIds, formatBootRefusal(answer.refusal))
      this.#send(runId, { type: 'boot failed' })
      return
    }
    this.#sandboxes.set(runId, known)
    known.sandbox = answer.value
    if (this.#stateOf(runId) !== 'booting') this.#sendFailed(requestIds, RELEASED)
    else for (const requestId of requestIds) this.#sendReady(known, requestId)
    // If the actor has crashed meanwhile, close the sandbox here.
    if (this.#stateOf(runId) === undefined) void this.#close(runId)
    else this.#send(runId, { type: 'booted' })
  }

  async #callBoot(runId: string, credentials: RunCredentials): Promise<Result<BootedSandbox>> {
    try {
      return await this.#ports.executor.boot({ runId, credentials })
    } catch (error) {
      this.#ports.log.error({ run: runId, reason: messageOf(error) }, 'could not boot a sandbox')
      return no('failed', 'internal error: the sandbox could not be booted')
    }
  }

  #sendReady({ sandbox }: ResumedSandbox, requestId: string): void {
    const named = sandbox?.sessionId === undefined ? {} : { sessionId: sandbox.sessionId }
    this.#ports.hostSender.send({ type: 'sandbox-ready', requestId, ...named })
  }

  #sendFailed(requestIds: readonly string[], message: string): void {
    for (const requestId of requestIds)
      this.#ports.hostSender.send({
        type: 'sandbox-failed',
        requestId,
        message: truncate(message, TEXT_CHARS_MAX),
      })
  }

  /** Nothing happens when the sandbox is not booted. */
  release(runId: string, message = RELEASED): void {
    this.#forgetEnding(runId)
    const known = this.#sandboxes.get(runId)
    this.#sendFailed(known?.later?.requestIds ?? [], message)
    if (known !== undefined) known.later = undefined
    known?.terminal?.dismiss(message)
    this.#send(runId, { type: 'release requested' })
  }

  releaseAll(message: string): void {
    for (const runId of [...this.#ports.system.keys(RESUMED_SANDBOX)]) this.release(runId, message)
    // Also close the sandboxes whose actor has crashed.
    for (const [runId, { sandbox }] of this.#sandboxes)
      if (sandbox !== undefined && this.#stateOf(runId) === undefined) void this.#close(runId)
  }

  /** Runs the action when the sandbox is closed; at once when it is not booted. */
  runAfterClosing(runId: string, action: () => void, message: string): void {
    const known = this.#sandboxes.get(runId)
    if (known === undefined) action()
    else {
      known.afterwards = action
      this.release(runId, message)
    }
  }

  async #close(runId: string): Promise<void> {
    const known = this.#sandboxes.get(runId) ?? {}
    known.terminal?.dismiss(RELEASED)
    known.terminal = undefined
    this.#sendUsage(await this.#callClose(runId, known))
    known.sandbox = undefined
    if (this.#stateOf(runId) === undefined) this.#cleanUp(runId)
    else this.#send(runId, { type: 'closed' })
  }

  async #callClose(runId: string, { sandbox }: ResumedSandbox): Promise<readonly UsageSnapshot[]> {
    try {
      return (await sandbox?.close()) ?? []
    } catch (error) {
      this.#ports.log.error({ run: runId, reason: messageOf(error) }, 'could not close a resumed sandbox')
      return []
    }
  }

  #cleanUp(runId: string): void {
    const { timers, onChange } = this.#ports
    const { afterwards, later } = this.#sandboxes.get(runId) ?? {}
    this.#sandboxes.delete(runId)
    this.#rememberEnded(runId)
    timers.cancelAll(RESUMED_SANDBOX_TIMER.key(runId))
    afterwards?.()
    if (afterwards !== undefined) this.#sendFailed(later?.requestIds ?? [], RELEASED)
    else if (later !== undefined) this.#tryBoot(runId, later)
    onChange()
  }

  #rememberEnded(runId: string): void {
    const ending = this.#ended.get(runId)
    this.#ended.delete(runId)
    this.#ended.set(runId, ending)
    const [oldest] = this.#ended.keys()
    if (this.#ended.size > ENDED_MAX && oldest !== undefined) this.#ended.delete(oldest)
  }

  /** Views that open from now on do not get the last screen of the session. */
  #forgetEnding(runId: string): void {
    if (this.#ended.has(runId)) this.#ended.set(runId, undefined)
  }

  // ---- views -------------------------------------------------------------------------------------------------------

  openView({ sessionId, runId, cols, rows }: HostFrameOf<'attach-open'>): void {
    const refusal = this.#tryOpenView(sessionId, runId, { cols, rows })
    if (refusal !== undefined)
      this.#ports.hostSender.send({
        type: 'attach-error',
        sessionId,
        message: truncate(refusal, TEXT_CHARS_MAX),
      })
  }

  /** Returns the refusal, or undefined when the view is open. */
  #tryOpenView(sessionId: string, runId: string, size: TerminalSize): string | undefined {
    const ending = this.#ended.get(runId)
    if (ending !== undefined) return this.#replayEnding(sessionId, ending)
    const known = this.#sandboxes.get(runId)
    if (known?.sandbox === undefined || this.#isClosing(runId)) return this.#missingReason(runId)
    const current = this.#terminalOfView(sessionId)
    if (current !== undefined && current !== known.terminal) return 'this session belongs to another run'
    known.terminal ??= this.#openTerminal(runId, known.sandbox, size)
    const { terminal } = known
    if (terminal === undefined) return 'internal error: the terminal could not be opened'
    if (current === undefined && terminal.viewCount >= VIEWS_MAX)
      return `${VIEWS_MAX} terminals show this session already; close one of them first`
    this.#send(runId, { type: 'view opened' })
    terminal.open(sessionId, size)
    return undefined
  }

  /** The host opens views only after `sandbox-ready`, so the sandbox existed in this daemon or in an earlier one. */
  #missingReason(runId: string): string {
    if (this.has(runId)) return CLOSING
    return this.#ended.has(runId) ? CLOSED_MEANWHILE : SESSION_LOST_IN_RESTART
  }

  /** Shows the final screen of a session that ended while its views were disconnected. */
  #replayEnding(sessionId: string, { code, serializedScreen = [] }: SessionEnding): undefined {
    const { hostSender } = this.#ports
    const framePrefix = attachDataPrefix(sessionId)
    // With a full socket the view receives only the exit code.
    const chunks = hostSender.backlog() < ENDINGS_BYTES_MAX ? serializedScreen : []
    for (const chunk of chunks) hostSender.sendText(attachDataText(framePrefix, chunk))
    hostSender.send({ type: 'attach-exit', sessionId, code })
  }

  #openTerminal(runId: string, sandbox: BootedSandbox, size: TerminalSize): TerminalBroadcast | undefined {
    const { log } = this.#ports
    try {
      const onEnded = (ending: SessionEnding) => this.#onSessionEnded(runId, ending)
      return new TerminalBroadcast({ ...this.#ports, key: TERMINAL_TIMER.key(runId), onEnded }, sandbox, size)
    } catch (error) {
      log.error({ run: runId, reason: messageOf(error) }, 'could not open a terminal')
      return undefined
    }
  }

  #onSessionEnded(runId: string, ending: SessionEnding): void {
    const known = this.#sandboxes.get(runId)
    if (known !== undefined) known.terminal = undefined
    if (ending.serializedScreen !== undefined) {
      this.#ended.set(runId, ending)
      this.#ports.timers.in(ENDED_SESSION_TIMER.key(runId), 'old', ADRIFT_MS)
    }
    this.#send(runId, { type: 'session ended' })
  }

  input({ sessionId, data }: HostFrameOf<'attach-input'>): void {
    this.#terminalOfView(sessionId)?.input(sessionId, data)
  }

  resize({ sessionId, cols, rows }: HostFrameOf<'attach-resize'>): void {
    this.#terminalOfView(sessionId)?.resize(sessionId, { cols, rows })
  }

  /** Answers `attach-ask`: how many inputs of this session have arrived, so that the host resends only the rest. */
  sendInputCount(sessionId: string): void {
    let inputs = 0
    for (const { terminal } of this.#sandboxes.values()) inputs += terminal?.inputCount(sessionId) ?? 0
    this.#ports.hostSender.send({ type: 'attach-taken', sessionId, inputs })
  }

  closeView(sessionId: string): void {
    for (const [runId, { terminal }] of this.#sandboxes)
      if (terminal?.close(sessionId) === true && terminal.viewCount === 0)
        this.#send(runId, { type: 'last view closed' })
  }

  #terminalOfView(sessionId: string): TerminalBroadcast | undefined {
    for (const { terminal } of this.#sandboxes.values()) if (terminal?.has(sessionId)) return terminal
    return undefined
  }

  // ---- connection ----------------------------------------------------------------------------------------------------

  /** Sends the kept usage. The host opens its views again by itself. */
  onConnectionUp(): void {
    this.#sendUsage(this.#unsentUsage.splice(0))
  }

  onConnectionDown(): void {
    for (const { terminal } of this.#sandboxes.values()) terminal?.dropViews()
    for (const runId of [...this.#ports.system.keys(RESUMED_SANDBOX)])
      this.#send(runId, { type: 'connection lost' })
  }

  #sendUsage(snapshots: readonly UsageSnapshot[]): void {
    const { hostSender } = this.#ports
    if (!hostSender.isUp) {
      // When there is too much, the usage of subagents is dropped first.
      const all = [...this.#unsentUsage, ...snapshots]
      const [ofMainAgent, ofSubagents] = [
        all.filter(isOfMainAgent),
        all.filter((snapshot) => !isOfMainAgent(snapshot)),
      ]
      this.#unsentUsage = [...ofSubagents, ...ofMainAgent].slice(-UNSENT_USAGE_MAX)
      return
    }
    for (const snapshot of snapshots) hostSender.send({ type: 'run-usage-snapshot', snapshot })
  }

  /** The timers of resumed sandboxes, of their ended sessions and of their terminals. */
  readonly timerHandlers = [
    handleTimer(RESUMED_SANDBOX_TIMER, (runId) => this.#send(runId, { type: 'timed out' })),
    handleTimer(ENDED_SESSION_TIMER, (runId) => this.#forgetEnding(runId)),
    handleTimer(TERMINAL_TIMER, (runId, name) => this.#sandboxes.get(runId)?.terminal?.onTimer(name)),
  ]

  // ---- actors ---------------------------------------------------------------------------------------------------

  #stateOf(runId: string): string | undefined {
    const value = this.#ports.system.peek(RESUMED_SANDBOX, runId)?.value
    return value === undefined ? undefined : String(value)
  }

  /** Whether the sandbox is on its way out: no view may open, and a new request waits. */
  #isClosing(runId: string): boolean {
    const state = this.#stateOf(runId)
    return state === undefined || state === 'closing' || state === 'releasedEarly'
  }

  #send(runId: string, event: ResumedSandboxEvent): void {
    this.#ports.system.send(RESUMED_SANDBOX, runId, event)
  }
}

/** Whether the usage is the session's own, not that of a subagent. */
const isOfMainAgent = ({ subagentId }: UsageSnapshot): boolean => subagentId === undefined

/** Bounds how long an actor stays in a state. */
const RESUMED_SANDBOX_TIMER = timerKind<'up'>('booted')
/** Bounds how long the last screen of a session is kept. */
const ENDED_SESSION_TIMER = timerKind<'old'>('ended-session')
