/**
 * The sandboxes on this machine that are booted for a person, and the way from the host's frames to their terminals.
 *
 * A boot's credentials are held here until the sandbox is asked for, and nowhere else. Whoever asks for what is booted
 * is answered at once; whoever asks while it is being closed gets a new one as soon as it is gone. What a session has
 * come to is told when it is closed, best effort: it is beside every lease, and the run's own numbers are told already.
 */
import { isNativeError } from 'node:util/types'
import type { Executor } from '../../core/daemon/ports.ts'
import { bootRefusalText } from '../../core/daemon/resume-refusal.ts'
import type { BootedSandbox, MakeScreen, TerminalSize } from '../../core/daemon/terminal.ts'
import type { Log } from '../../core/ports.ts'
import { no, type Result } from '../../core/result.ts'
import { cut } from '../../core/safe-text.ts'
import { attachDataHead, attachDataText } from '../../protocol/attach-text.ts'
import type { HostFrameOf, RunCredentials, UsageSnapshot } from '../../protocol/frames.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { BOOTED } from './daemon.names.ts'
import type { Line } from './host-connection.ts'
import type { BootedEffect, BootedEvent, BootedWait } from './resumed-sandbox.machine.ts'
import { type Ending, Showing } from './terminal-broadcast.ts'
import type { Timers } from './timers.ts'

export interface BootedPorts {
  readonly log: Log
  readonly timers: Timers
  readonly line: Line
  readonly system: ActorSystem
  readonly executor: Pick<Executor, 'boot'>
  readonly makeScreen: MakeScreen
  /** Why none may be booted for this run right now. */
  readonly objection: (runId: string) => string | undefined
  /** How many there are may have changed. */
  readonly changed: () => void
}

/** How long a session lives on without a line: as long as its host waits for a worker that is away. */
const ADRIFT_MS = 120_000
/** From the last view to the end it is only enough for a page that is loaded anew. */
const WAITS_MS: Readonly<Record<BootedWait, number>> = {
  'booted.wait for a view': 120_000,
  'booted.wait for a return': 30_000,
  'booted.wait for the line': ADRIFT_MS,
}
/** Each is a person's, and holds processes and a terminal. */
const BOOTED_MAX = 32
/** Of one sandbox; the host's own bound is lower. */
const VIEWS_MAX = 64
/** Those who wait for one boot. */
const REQUESTS_MAX = 32
/** What waits for a line to be told. */
const UNTOLD_USAGE_MAX = 64

/** Pictures of how a session ended, on their way to those who come back: heartbeats wait behind them. */
const ENDINGS_BYTES_MAX = 4 * 1024 * 1024
/** Sessions that were closed here, to be told apart from those of a daemon that is no more; the oldest are forgotten. */
const CLOSED_KEPT_MAX = 1_024

const RELEASED = 'the sandbox was closed'
const CLOSING = 'the session is being closed; attach again to go on with it'
const CLOSED = 'the session was closed meanwhile; attach again to go on with it'
const RESTARTED = 'the worker was started again, and the session ended with it; attach again to go on with it'
const CROWDED = `${BOOTED_MAX} sandboxes are booted on this worker already; release one of them first`

/** Those who asked for one boot. */
interface Wish {
  readonly requestIds: string[]
  credentials: RunCredentials | undefined
}

export class BootedRoom {
  readonly #ports: BootedPorts
  /** By run, those that wait for it to be booted. */
  readonly #wishes = new Map<string, Wish>()
  /** By run, those that wait for it to be closed and booted anew. */
  readonly #later = new Map<string, Wish>()
  readonly #sandboxes = new Map<string, BootedSandbox>()
  readonly #showings = new Map<string, Showing>()
  /** By run, sessions that ended while nobody looked, or could. */
  readonly #endings = new Map<string, Ending>()
  /** Runs that were booted here and are not any more. */
  readonly #closedOnes = new Set<string>()
  /** By run, what is to be done once nothing of it is left. */
  readonly #afterwards = new Map<string, () => void>()
  #untold: UsageSnapshot[] = []

  constructor(ports: BootedPorts) {
    this.#ports = ports
  }

  do(effect: BootedEffect): void {
    const { runId } = effect
    if (effect.type === 'booted.boot') void this.#boot(runId)
    else if (effect.type === 'booted.close') void this.#close(runId)
    else if (effect.type === 'booted.over') this.#over(runId)
    else this.#ports.timers.in(waitOf(runId), 'up', WAITS_MS[effect.type])
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  /** From the wish until nothing of it is left. */
  has(runId: string): boolean {
    return this.#stateOf(runId) !== undefined || this.#sandboxes.has(runId)
  }

  get count(): number {
    return new Set([...this.#ports.system.keys(BOOTED), ...this.#sandboxes.keys()]).size
  }

  get views(): number {
    let views = 0
    for (const showing of this.#showings.values()) views += showing.views
    return views
  }

  // ---- booting and closing -----------------------------------------------------------------------------------------

  wanted({ requestId, runId, credentials }: HostFrameOf<'sandbox-boot'>): void {
    const state = this.#stateOf(runId)
    if (!this.has(runId)) this.#tryToBegin(runId, { requestIds: [requestId], credentials })
    else if (state === 'booting') this.#join(this.#wishes, runId, requestId, credentials)
    else if (state === undefined || state === 'unwanted' || state === 'closing')
      this.#join(this.#later, runId, requestId, credentials)
    else {
      this.#tell(runId, { type: 'asked again' })
      this.#ports.line.send({ type: 'sandbox-ready', requestId })
    }
  }

  #tryToBegin(runId: string, wish: Wish): void {
    const objection = this.#ports.objection(runId) ?? (this.count < BOOTED_MAX ? undefined : CROWDED)
    if (objection === undefined) this.#begin(runId, wish)
    else this.#fail(wish.requestIds, objection)
  }

  #join(wishes: Map<string, Wish>, runId: string, requestId: string, credentials: RunCredentials): void {
    const wish = wishes.get(runId) ?? { requestIds: [], credentials }
    wishes.set(runId, wish)
    if (wish.requestIds.length < REQUESTS_MAX) wish.requestIds.push(requestId)
    else this.#fail([requestId], 'too many ask for this sandbox at once; try again')
  }

  #begin(runId: string, wish: Wish): void {
    this.#endings.delete(runId)
    this.#wishes.set(runId, wish)
    if (this.#ports.system.spawn(BOOTED, runId, { runId }).ok) this.#ports.changed()
    else this.#failWish(runId, 'internal error: it could not be begun')
  }

  async #boot(runId: string): Promise<void> {
    const wish = this.#wishes.get(runId)
    const credentials = wish?.credentials ?? {}
    if (wish !== undefined) wish.credentials = undefined
    const answer = await this.#booted(runId, credentials)
    if (!answer.ok) {
      this.#failWish(runId, bootRefusalText(answer.refusal))
      this.#tell(runId, { type: 'refused' })
      return
    }
    this.#sandboxes.set(runId, answer.value)
    if (this.#stateOf(runId) === 'booting') this.#succeed(runId)
    else this.#failWish(runId, RELEASED)
    // One whose life broke meanwhile has nobody who would close it.
    if (this.#stateOf(runId) === undefined) void this.#close(runId)
    else this.#tell(runId, { type: 'ready' })
  }

  async #booted(runId: string, credentials: RunCredentials): Promise<Result<BootedSandbox>> {
    try {
      return await this.#ports.executor.boot({ runId, credentials })
    } catch (error) {
      this.#ports.log.error({ run: runId, reason: messageOf(error) }, 'a sandbox could not be booted')
      return no('failed', 'internal error: the sandbox could not be booted')
    }
  }

  #succeed(runId: string): void {
    const wish = this.#wishes.get(runId)
    this.#wishes.delete(runId)
    for (const requestId of wish?.requestIds ?? [])
      this.#ports.line.send({ type: 'sandbox-ready', requestId })
  }

  #failWish(runId: string, message: string): void {
    const wish = this.#wishes.get(runId)
    this.#wishes.delete(runId)
    this.#fail(wish?.requestIds ?? [], message)
  }

  #fail(requestIds: readonly string[], message: string): void {
    for (const requestId of requestIds)
      this.#ports.line.send({ type: 'sandbox-failed', requestId, message: cut(message, TEXT_CHARS_MAX) })
  }

  /** Nothing happens when it is not booted. */
  release(runId: string, message = RELEASED): void {
    this.#endings.delete(runId)
    this.#forgetLater(runId, message)
    this.#showings.get(runId)?.dismiss(message)
    this.#tell(runId, { type: 'release requested' })
  }

  releaseAll(message: string): void {
    for (const runId of [...this.#ports.system.keys(BOOTED)]) this.release(runId, message)
    // Those whose life broke are closed all the same.
    for (const runId of this.#sandboxes.keys())
      if (this.#stateOf(runId) === undefined) void this.#close(runId)
  }

  /** Once nothing of it is left: at once, mostly. */
  afterClosing(runId: string, then: () => void, message: string): void {
    if (this.has(runId)) {
      this.#afterwards.set(runId, then)
      this.release(runId, message)
    } else then()
  }

  #forgetLater(runId: string, message: string): void {
    this.#fail(this.#later.get(runId)?.requestIds ?? [], message)
    this.#later.delete(runId)
  }

  async #close(runId: string): Promise<void> {
    this.#showings.get(runId)?.dismiss(RELEASED)
    this.#showings.delete(runId)
    this.#tellUsage(await this.#closed(runId))
    this.#sandboxes.delete(runId)
    if (this.#stateOf(runId) === undefined) this.#over(runId)
    else this.#tell(runId, { type: 'closed' })
  }

  async #closed(runId: string): Promise<readonly UsageSnapshot[]> {
    try {
      return (await this.#sandboxes.get(runId)?.close()) ?? []
    } catch (error) {
      this.#ports.log.error({ run: runId, reason: messageOf(error) }, 'a booted sandbox could not be closed')
      return []
    }
  }

  #over(runId: string): void {
    const { timers, changed } = this.#ports
    this.#noteClosed(runId)
    timers.cancelAll(waitOf(runId))
    this.#wishes.delete(runId)
    const then = this.#afterwards.get(runId)
    this.#afterwards.delete(runId)
    then?.()
    if (then !== undefined) this.#forgetLater(runId, RELEASED)
    const next = this.#later.get(runId)
    this.#later.delete(runId)
    if (next !== undefined) this.#tryToBegin(runId, next)
    changed()
  }

  #noteClosed(runId: string): void {
    this.#closedOnes.delete(runId)
    this.#closedOnes.add(runId)
    const [oldest] = this.#closedOnes
    if (this.#closedOnes.size > CLOSED_KEPT_MAX && oldest !== undefined) this.#closedOnes.delete(oldest)
  }

  // ---- views -------------------------------------------------------------------------------------------------------

  open({ sessionId, runId, cols, rows }: HostFrameOf<'attach-open'>): void {
    const refusal = this.#shown(sessionId, runId, { cols, rows })
    if (refusal !== undefined)
      this.#ports.line.send({ type: 'attach-error', sessionId, message: cut(refusal, TEXT_CHARS_MAX) })
  }

  /** Answers why it is not. */
  #shown(sessionId: string, runId: string, size: TerminalSize): string | undefined {
    const ending = this.#endings.get(runId)
    if (ending !== undefined) return this.#showEnding(sessionId, ending)
    const sandbox = this.#sandboxes.get(runId)
    const state = this.#stateOf(runId)
    if (sandbox === undefined || state === undefined || state === 'closing' || state === 'unwanted')
      return this.#whyNone(runId)
    const known = this.#showingOf(sessionId)
    if (known !== undefined && known !== this.#showings.get(runId))
      return 'this session belongs to another run'
    const showing = this.#showings.get(runId) ?? this.#showFirst(runId, sandbox, size)
    if (showing === undefined) return 'internal error: its terminal could not be opened'
    if (known === undefined && showing.views >= VIEWS_MAX)
      return `${VIEWS_MAX} terminals show this session already; close one of them first`
    this.#tell(runId, { type: 'viewed' })
    showing.open(sessionId, size)
    return undefined
  }

  /** The host opens views only of what it was told is ready: it was here once, or in a daemon before this one. */
  #whyNone(runId: string): string {
    if (this.has(runId)) return CLOSING
    return this.#closedOnes.has(runId) ? CLOSED : RESTARTED
  }

  /** It ended while its views were away: they see how. */
  #showEnding(sessionId: string, { code, picture = [] }: Ending): undefined {
    const { line } = this.#ports
    const head = attachDataHead(sessionId)
    // Whoever comes when there is no room for more of them is told the end alone.
    const shown = line.backlog() < ENDINGS_BYTES_MAX ? picture : []
    for (const piece of shown) line.sendText(attachDataText(head, piece))
    line.send({ type: 'attach-exit', sessionId, code })
  }

  #showFirst(runId: string, sandbox: BootedSandbox, size: TerminalSize): Showing | undefined {
    const { log } = this.#ports
    try {
      const ended = (ending: Ending) => this.#ended(runId, ending)
      const showing = new Showing({ ...this.#ports, key: showingOf(runId), ended }, sandbox, size)
      this.#showings.set(runId, showing)
      return showing
    } catch (error) {
      log.error({ run: runId, reason: messageOf(error) }, 'a terminal could not be opened')
      return undefined
    }
  }

  #ended(runId: string, ending: Ending): void {
    this.#showings.delete(runId)
    if (ending.picture !== undefined) {
      this.#endings.set(runId, ending)
      this.#ports.timers.in(endingOf(runId), 'old', ADRIFT_MS)
    }
    this.#tell(runId, { type: 'session ended' })
  }

  input({ sessionId, data }: HostFrameOf<'attach-input'>): void {
    this.#showingOf(sessionId)?.input(sessionId, data)
  }

  resize({ sessionId, cols, rows }: HostFrameOf<'attach-resize'>): void {
    this.#showingOf(sessionId)?.resize(sessionId, { cols, rows })
  }

  /** Asked before the view is opened again: whose it is, its frames tell. */
  tellTaken(sessionId: string): void {
    let inputs = 0
    for (const showing of this.#showings.values()) inputs += showing.inputsOf(sessionId)
    this.#ports.line.send({ type: 'attach-taken', sessionId, inputs })
  }

  close(sessionId: string): void {
    for (const [runId, showing] of this.#showings)
      if (showing.close(sessionId) && showing.views === 0) this.#tell(runId, { type: 'last view closed' })
  }

  #showingOf(sessionId: string): Showing | undefined {
    for (const showing of this.#showings.values()) if (showing.has(sessionId)) return showing
    return undefined
  }

  // ---- the line ----------------------------------------------------------------------------------------------------

  /** A new one: the host opens its views again by itself. */
  lineUp(): void {
    this.#tellUsage(this.#untold.splice(0))
  }

  lineDown(): void {
    for (const showing of this.#showings.values()) showing.cutOff()
    for (const runId of [...this.#ports.system.keys(BOOTED)]) this.#tell(runId, { type: 'line lost' })
  }

  #tellUsage(snapshots: readonly UsageSnapshot[]): void {
    const { line } = this.#ports
    if (!line.isUp) {
      // What nested agents have used is left out first.
      const all = [...this.#untold, ...snapshots]
      const [own, nested] = [all.filter(isOwn), all.filter((snapshot) => !isOwn(snapshot))]
      this.#untold = [...nested, ...own].slice(-UNTOLD_USAGE_MAX)
      return
    }
    for (const snapshot of snapshots) line.send({ type: 'run-usage-snapshot', snapshot })
  }

  /** A timer that was set here came due. */
  rang(key: string, name: string): void {
    if (key.startsWith(WAIT)) this.#tell(key.slice(WAIT.length), { type: 'time is up' })
    else if (key.startsWith(ENDING)) this.#endings.delete(key.slice(ENDING.length))
    else this.#showings.get(key.slice(SHOWING.length))?.rang(name)
  }

  // ---- the lives ---------------------------------------------------------------------------------------------------

  #stateOf(runId: string): string | undefined {
    const value = this.#ports.system.peek(BOOTED, runId)?.value
    return value === undefined ? undefined : String(value)
  }

  #tell(runId: string, event: BootedEvent): void {
    this.#ports.system.send(BOOTED, runId, event)
  }
}

/** The session's, rather than that of an agent nested in it. */
const isOwn = ({ subagentId }: UsageSnapshot): boolean => subagentId === undefined

/** In front of the keys of this room's timers. */
export const BOOTED_TIMER = 'booted '
const WAIT = `${BOOTED_TIMER}wait `
const ENDING = `${BOOTED_TIMER}ending `
const SHOWING = `${BOOTED_TIMER}shown `
const waitOf = (runId: string): string => `${WAIT}${runId}`
const endingOf = (runId: string): string => `${ENDING}${runId}`
const showingOf = (runId: string): string => `${SHOWING}${runId}`

const messageOf = (error: unknown): string => (isNativeError(error) ? error.message : String(error))
