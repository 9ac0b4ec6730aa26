/**
 * Sandboxes that are booted for people, and the terminals through which they look at them.
 *
 * The host holds no terminal and no session: it has a sandbox booted, once however many ask for it, passes on what is
 * typed and what is printed, and sees to it that nothing stays booted that nobody looks at. Credentials are taken from
 * the configuration at the moment they are sent, and kept nowhere. All of it is in memory only.
 */
import { bootRefusalOf } from '../../core/daemon/resume-refusal.ts'
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
import type { Lines } from '../workers/worker-connections.ts'
import type { Fleet } from '../workers/worker-registry.ts'
import { ATTACH } from './attach.names.ts'
import type { AttachContext, AttachEffect, AttachEvent, AttachInput } from './terminal-session.machine.ts'
import { type Mouth, View } from './terminal-view.ts'

export interface AttachPorts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly system: ActorSystem
  readonly fleet: Fleet
  readonly timers: MonotonicTimers
  readonly lines: Lines
  readonly timeouts: () => LeaseTimeouts
  /** For the agent, as the configuration has it now. */
  readonly credentials: () => RunCredentials
}

/** A retained sandbox, and who holds it. */
export interface Held {
  readonly runId: string
  readonly workerId: string
}

/** What a worker says of booted sandboxes and terminals. */
export type AttachFrame = Extract<WorkerFrame, { readonly type: `attach-${string}` | `sandbox-${string}` }>

interface Booted extends Held {
  readonly requestId: string
  readonly mouth: Mouth
  readonly views: Set<View>
  /** Resolves once it is ready to be looked at, or never will be. */
  readonly ready: Promise<Result<void>>
  readonly settle: (answer: Result<void>) => void
  /** How its session's process ended. */
  code: number | undefined
}

const ALARM = 'attach '
const alarmOf = (runId: string): string => ALARM + runId
const CLOSE_GOING_AWAY = 1001
const CLOSE_POLICY = 1008
const CLOSE_FAILED = 1011
const CLOSE_TRY_AGAIN = 1013

export class AttachRoom {
  readonly #ports: AttachPorts
  readonly #booted = new Map<string, Booted>()
  /** Every view there is, those included that wait for a sandbox to be booted; by its session's id. */
  readonly #views = new Map<string, View>()
  /** By worker: released while it was away, and to be told when it is back. */
  readonly #untold = new Map<string, Set<string>>()

  constructor(ports: AttachPorts) {
    this.#ports = ports
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  isBooted(runId: string): boolean {
    return this.#booted.has(runId)
  }

  get size(): number {
    return this.#booted.size
  }

  get views(): number {
    return this.#views.size
  }

  /** Of sandboxes that this worker has booted, or is about to. */
  viewsOn(workerId: string): number {
    let count = 0
    for (const { runId } of this.#views.values())
      if (this.#booted.get(runId)?.workerId === workerId) count += 1
    return count
  }

  // ---- what people want --------------------------------------------------------------------------------------------

  /** Answered once its session can be looked at. Whether that is allowed was asked before. */
  boot(held: Held): Promise<Result<void>> {
    const known = this.#booted.get(held.runId) ?? this.#begin(held)
    if (known.code === undefined) return known.ready
    return Promise.resolve(no('conflict', `the session of ${held.runId} has just ended; try again`))
  }

  release(runId: string): void {
    this.#tell(runId, { type: 'released', reason: 'the session was released' })
  }

  /** `resume`: has its sandbox booted, or says why not. */
  attach(runId: string, link: ViewLink, resume: () => Promise<Result<unknown>>): ViewLine {
    const { random, clock } = this.#ports
    const sessionId = `as-${uuidv7Hex(clock.now(), random.bytes(10))}`
    const view = new View(runId, sessionId, link, {
      after: (ms, run) => clock.after(ms, run),
      left: (one) => this.#viewLeft(one),
    })
    const crowded = this.#crowded(runId)
    this.#views.set(sessionId, view)
    if (crowded === undefined) void this.#join(view, resume).catch((err) => this.#broke(view, err))
    else view.refused(crowded, CLOSE_TRY_AGAIN)
    return view
  }

  #crowded(runId: string): string | undefined {
    if (this.#views.size >= ATTACH_VIEWS_MAX)
      return `${ATTACH_VIEWS_MAX} terminals are open already; close one`
    const own = [...this.#views.values()].filter((view) => view.runId === runId)
    if (own.length < ATTACH_VIEWS_PER_RUN_MAX) return undefined
    return `${ATTACH_VIEWS_PER_RUN_MAX} terminals of this run are open already; close one`
  }

  async #join(view: View, resume: () => Promise<Result<unknown>>): Promise<void> {
    const resumed = await resume()
    const booted = this.#booted.get(view.runId)
    if (!resumed.ok) view.refused(resumed.refusal.message, codeOf(resumed.refusal))
    else if (booted === undefined || booted.code !== undefined)
      view.refused('the session ended before it could be shown; try again')
    // Its person may not have waited.
    else if (this.#views.has(view.sessionId)) this.#show(booted, view)
  }

  /** It costs one person a view, and not everybody the service. */
  #broke(view: View, err: unknown): void {
    this.#ports.log.error({ err, run: view.runId }, 'a terminal could not be opened')
    view.refused('the service failed; its log says why', CLOSE_FAILED)
  }

  #show(booted: Booted, view: View): void {
    booted.views.add(view)
    this.#tell(booted.runId, { type: 'watched' })
    view.join(booted.mouth)
  }

  #viewLeft(view: View): void {
    this.#views.delete(view.sessionId)
    const booted = this.#booted.get(view.runId)
    if (booted?.views.delete(view) === true && booted.views.size === 0)
      this.#tell(view.runId, { type: 'unwatched' })
  }

  // ---- what workers say --------------------------------------------------------------------------------------------

  heard(workerId: string, frame: AttachFrame): void {
    switch (frame.type) {
      case 'sandbox-ready':
      case 'sandbox-failed':
        this.#answered(workerId, frame)
        return
      case 'attach-data':
        this.#viewOf(workerId, frame.sessionId)?.printed(frame.data)
        return
      case 'attach-exit':
        this.#exited(workerId, frame)
        return
      case 'attach-error':
        this.#failed(workerId, frame)
        return
      case 'attach-taken':
        this.#viewOf(workerId, frame.sessionId)?.taken(frame.inputs)
        return
    }
  }

  /** By far the most that workers say, and read in a way of its own. */
  printed(workerId: string, { sessionId, data, json }: AttachData): void {
    this.#viewOf(workerId, sessionId)?.printed(data, json)
  }

  #answered(workerId: string, frame: WorkerFrameOf<'sandbox-ready'> | WorkerFrameOf<'sandbox-failed'>): void {
    for (const booted of this.#booted.values()) {
      if (booted.requestId !== frame.requestId || booted.workerId !== workerId) continue
      if (frame.type === 'sandbox-ready') this.#tell(booted.runId, { type: 'ready' })
      else this.#couldNotBoot(booted, printable(frame.message))
      return
    }
  }

  #couldNotBoot({ runId, settle }: Booted, said: string): void {
    const refused = bootRefusalOf(said)
    settle(refused)
    this.#tell(runId, { type: 'failed', reason: refused.refusal.message })
  }

  #viewOf(workerId: string, sessionId: string): View | undefined {
    const view = this.#views.get(sessionId)
    return view?.workerId === workerId ? view : undefined
  }

  #exited(workerId: string, { sessionId, code }: WorkerFrameOf<'attach-exit'>): void {
    const view = this.#viewOf(workerId, sessionId)
    const booted = view === undefined ? undefined : this.#booted.get(view.runId)
    if (view === undefined || booted === undefined) return
    booted.code = code
    this.#tell(view.runId, { type: 'exited' })
    view.exited(code)
  }

  /**
   * A view that was shown the terminal is dismissed: so is everybody. One that never was concerns nobody else, unless
   * nobody is shown anything: then the worker does not have the session any more.
   */
  #failed(workerId: string, { sessionId, message }: WorkerFrameOf<'attach-error'>): void {
    const view = this.#viewOf(workerId, sessionId)
    const booted = view === undefined ? undefined : this.#booted.get(view.runId)
    if (view === undefined || booted === undefined) return
    const isOver = view.live || ![...booted.views].some(({ live }) => live)
    const reason = printable(message)
    view.refused(reason)
    if (isOver) this.#tell(view.runId, { type: 'failed', reason })
  }

  // ---- workers come and go -----------------------------------------------------------------------------------------

  lineLost(workerId: string): void {
    this.#tellAll(workerId, { type: 'line lost' })
  }

  lineBack(workerId: string): void {
    const untold = this.#untold.get(workerId) ?? []
    this.#untold.delete(workerId)
    for (const runId of untold)
      if (!this.isBooted(runId)) this.#ports.lines.sendTo(workerId, { type: 'sandbox-release', runId })
    this.#tellAll(workerId, { type: 'line back' })
  }

  workerLeft(workerId: string): void {
    this.#untold.delete(workerId)
    this.#tellAll(workerId, { type: 'worker left' })
  }

  #tellAll(workerId: string, event: AttachEvent): void {
    for (const booted of [...this.#booted.values()])
      if (booted.workerId === workerId) this.#tell(booted.runId, event)
  }

  // ---- following the lives -----------------------------------------------------------------------------------------

  attachIs({ key, before, after, over }: StateChange): void {
    const booted = this.#booted.get(key)
    if (booted === undefined) return
    if (over) this.#over(booted, (after.context as AttachContext).reason)
    else if (before?.value !== after.value) this.#stands(booted, String(after.value))
  }

  #stands(booted: Booted, state: string): void {
    const { timers } = this.#ports
    timers.cancelAll(alarmOf(booted.runId))
    const ms = this.#mayTake(state)
    if (ms !== undefined) timers.set(alarmOf(booted.runId), state, timers.now() + ms)
    if (state === 'unwatched') booted.settle(yes(undefined))
    if (state === 'waiting') for (const view of [...booted.views]) view.lineLost()
  }

  /** How long a state may last; `undefined`: as long as it likes. */
  #mayTake(state: string): number | undefined {
    if (state === 'booting') return ATTACH_BOOT_MS_MAX
    if (state === 'unwatched') return ATTACH_GRACE_MS
    if (state === 'ending') return ATTACH_EXIT_MS_MAX
    return state === 'waiting' ? this.#ports.timeouts().reconnectGraceSeconds * 1000 : undefined
  }

  /** An alarm that was set here came due. */
  rang(key: string): void {
    this.#tell(key.slice(ALARM.length), { type: 'time over' })
  }

  #over(booted: Booted, reason: string): void {
    this.#booted.delete(booted.runId)
    this.#ports.timers.cancelAll(alarmOf(booted.runId))
    this.#ports.log.info(
      { run: booted.runId, worker: booted.workerId, reason },
      'a sandbox is not booted any more',
    )
    booted.settle(no('conflict', reason))
    for (const view of [...booted.views]) {
      if (booted.code === undefined) view.refused(reason)
      else view.exited(booted.code)
    }
  }

  // ---- what is done ------------------------------------------------------------------------------------------------

  do(effect: AttachEffect): void {
    const booted = this.#booted.get(effect.runId)
    if (effect.type === 'attach.release') this.#release(effect)
    else if (booted === undefined) return
    else if (effect.type === 'attach.boot') this.#order(booted, effect.requestId)
    else for (const view of [...booted.views]) view.open()
  }

  /** Not for one that was released in the breath in which it was asked for: the next one has an order of its own. */
  #order({ runId, workerId, requestId }: Booted, wanted: string): void {
    if (requestId !== wanted) return
    const { credentials, lines } = this.#ports
    const ordered = lines.sendTo(workerId, {
      type: 'sandbox-boot',
      requestId,
      runId,
      credentials: credentials(),
    })
    if (!ordered) this.#tell(runId, { type: 'line lost' })
  }

  #release({ runId, workerId }: Held): void {
    const { fleet, lines } = this.#ports
    if (lines.sendTo(workerId, { type: 'sandbox-release', runId })) return
    if (fleet.member(workerId) === undefined) return
    const untold = this.#untold.get(workerId) ?? new Set()
    this.#untold.set(workerId, untold.add(runId))
  }

  /** The service stops. The session itself may outlive that: whoever comes back soon finds it as it was. */
  stop(): void {
    const reason = 'the service is stopping'
    for (const view of [...this.#views.values()]) view.dismissed(CLOSE_GOING_AWAY, reason)
    for (const booted of this.#booted.values()) booted.settle(no('unavailable', reason))
  }

  #begin(held: Held): Booted {
    const { random, clock, system, lines, log } = this.#ports
    const { runId, workerId } = held
    const requestId = `bt-${uuidv7Hex(clock.now(), random.bytes(10))}`
    let settle: Booted['settle'] = () => {}
    const ready = new Promise<Result<void>>((resolve) => {
      settle = resolve
    })
    const mouth: Mouth = { runId, workerId, say: (frame) => lines.sendTo(workerId, frame) }
    const booted: Booted = { ...held, requestId, mouth, views: new Set(), ready, settle, code: undefined }
    this.#booted.set(runId, booted)
    const input: AttachInput = { runId, workerId, requestId }
    log.info({ run: runId, worker: workerId }, 'a sandbox is booted for a person')
    const born = system.spawn(ATTACH, runId, input)
    if (!born.ok) {
      this.#booted.delete(runId)
      settle(born)
    }
    return booted
  }

  #tell(runId: string, event: AttachEvent): void {
    this.#ports.system.send(ATTACH, runId, event)
  }
}

const codeOf = ({ kind }: Refusal): number => (kind === 'unavailable' ? CLOSE_TRY_AGAIN : CLOSE_POLICY)
