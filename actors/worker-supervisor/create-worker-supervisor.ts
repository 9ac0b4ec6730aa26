/**
 * Creates the supervisor of one worker: the machine, and the effects that ask the host and drive the worker.
 *
 * The supervisor stores nothing: whose a drain is stands at the host.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { DemandPort, DemandRequest, DriverResult, WorkerDriver } from '../../core/fleet/supervision.ts'
import { holdsOwnDrain, type OwnDemand, type SupervisionSettings } from '../../core/fleet/supervision.ts'
import type { Cancel, Clock, RandomSource } from '../../core/ports/clock.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import { SUPERVISOR_RETRY_MS_FIRST, SUPERVISOR_RETRY_MS_MAX } from '../../protocol/limits.ts'
import { type ActorKind, fatalOnCrash } from '../runtime/actor-kind.ts'
import { assembleSystem } from '../runtime/assemble-system.ts'
import { defineModule, effectHandlers } from '../runtime/module.ts'
import {
  type SupervisorEffect,
  type SupervisorEnd,
  type SupervisorEvent,
  type SupervisorInput,
  WORKER_SUPERVISOR,
  workerSupervisorMachine,
} from './worker-supervisor.machine.ts'

export const workerSupervisorKind: ActorKind = {
  name: WORKER_SUPERVISOR,
  singleton: true,
  logic: workerSupervisorMachine,
  supervision: fatalOnCrash,
  diskless: true,
}

export interface WorkerSupervisorPorts extends SupervisionPorts {
  readonly meters: Meters
  readonly settings: SupervisionSettings
  readonly onEnd: (end: SupervisorEnd) => void
}

export interface WorkerSupervisor {
  start(): void
  /** Stops a worker of its own, leaves any other worker as it is, and ends. */
  stop(): void
  /** The name of the present state. */
  state(): string
}

/** The supervisor is diskless, so its actor system reads an empty database and writes nothing. */
const NO_DATABASE = {
  snapshots: { get: () => undefined, all: () => [], kinds: () => [] },
  commit: async () => {},
}

/** The exit code for a bug. */
const EXIT_BROKEN = 70

export function createWorkerSupervisor(ports: WorkerSupervisorPorts): WorkerSupervisor {
  const { clock, driver, settings, log } = ports
  let isEnded = false
  const finish = (end: SupervisorEnd) => {
    if (isEnded) return
    isEnded = true
    effects.stop()
    assembled.system.stop()
    ports.onEnd(end)
  }
  const assembled = assembleSystem(
    { ...ports, database: NO_DATABASE, onFatal: (reason) => finish({ exitCode: EXIT_BROKEN, reason }) },
    [supervisionModule],
    (system) => {
      const send = (event: SupervisorEvent) => void system.send(WORKER_SUPERVISOR, WORKER_SUPERVISOR, event)
      return { runEffect: (effect: SupervisorEffect) => effects.run(effect), send }
    },
  )
  const effects = new SupervisionEffects(ports, assembled.context.send, finish)
  driver.onEnded = (result) => effects.onWorkerEnded(result)
  return {
    start() {
      const input: SupervisorInput = { settings, at: clock.monotonic() }
      log.debug({ settings: { ...settings } }, 'the supervisor starts')
      assembled.system.spawn(WORKER_SUPERVISOR, WORKER_SUPERVISOR, input)
    },
    stop: () => assembled.context.send({ type: 'stop requested' }),
    state: () =>
      isEnded ? 'ended' : String(assembled.system.peek(WORKER_SUPERVISOR, WORKER_SUPERVISOR)?.value),
  }
}

interface SupervisionContext {
  readonly runEffect: (effect: SupervisorEffect) => void
  readonly send: (event: SupervisorEvent) => void
}

const supervisionModule = defineModule<SupervisionContext>()({
  name: 'supervision',
  kinds: [workerSupervisorKind],
  create: ({ runEffect }) => ({ effects: effectHandlers<SupervisorEffect>({ supervision: runEffect }) }),
})

// ---- effects -----------------------------------------------------------------------------------------------------

interface SupervisionPorts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly demand: DemandPort
  readonly driver: WorkerDriver
  readonly pollMs: number
}

/** The exit code for a host that this version cannot work with. */
const EXIT_PROTOCOL = 76

/**
 * Carries out what the worker supervisor machine recorded: asks the host, starts and stops the worker, waits.
 *
 * Requests follow one another, so an answer is always about the state after every earlier request that was answered.
 */
export class SupervisionEffects {
  readonly #ports: SupervisionPorts
  readonly #send: (event: SupervisorEvent) => void
  readonly #finish: (end: SupervisorEnd) => void
  #cancelTimer: Cancel = () => {}
  /** Requests of an earlier state are out of date. */
  #newestRequest = 0
  #newestDemand: OwnDemand | undefined
  #lastSilence: string | undefined

  constructor(
    ports: SupervisionPorts,
    send: (event: SupervisorEvent) => void,
    finish: (end: SupervisorEnd) => void,
  ) {
    this.#ports = ports
    this.#send = send
    this.#finish = finish
  }

  run(effect: SupervisorEffect): void {
    switch (effect.type) {
      case 'supervision.ask':
        this.#cancelTimer()
        void this.#ask(effect.request)
        return
      case 'supervision.wait':
        this.#sendAfter(this.#pollMs(effect.silences), { type: 'poll due' })
        return
      case 'supervision.start worker':
        this.#cancelTimer()
        void this.#start(effect.failures)
        return
      case 'supervision.stop worker':
        this.#cancelTimer()
        void this.#stop(effect.failures)
        return
      case 'supervision.pause':
        this.#sendAfter(this.#retryMs(effect.failures), { type: 'pause over' })
        return
      case 'supervision.release worker':
        this.#cancelTimer()
        void this.#release(effect.stopPending)
        return
      case 'supervision.finish':
        this.#finish(effect.end)
    }
  }

  stop(): void {
    this.#cancelTimer()
    this.#newestRequest += 1
  }

  // ---- asking --------------------------------------------------------------------------------------------------------

  async #ask(request: DemandRequest): Promise<void> {
    const { demand, log, clock } = this.#ports
    this.#newestRequest += 1
    const number = this.#newestRequest
    if (request === 'drain') log.info({}, 'the worker is idle; draining it to stop it')
    if (request === 'lift') log.info({}, 'ending the drain of this supervisor')
    const answer = await demand.ask(request)
    if (number !== this.#newestRequest) return
    if (answer.is === 'unanswered') {
      if (answer.reason !== this.#lastSilence)
        log.warn({ reason: answer.reason }, 'the demand is not known; asking again')
      this.#lastSilence = answer.reason
      this.#send({ type: 'unanswered' })
      return
    }
    if (this.#lastSilence !== undefined) log.info({}, 'the host answers again')
    this.#lastSilence = undefined
    this.#newestDemand = answer.demand
    const { state, drainedBy } = answer.demand.worker
    if (request === 'drain' && state === 'draining' && drainedBy === undefined) {
      this.#send({ type: 'worker failed for good', exitCode: EXIT_PROTOCOL, reason: HOST_TOO_OLD })
      return
    }
    this.#send({ type: 'answered', at: clock.monotonic(), demand: answer.demand })
  }

  // ---- driving -------------------------------------------------------------------------------------------------------

  async #start(failures: number): Promise<void> {
    const { driver, log, clock } = this.#ports
    log.info({}, 'starting the worker')
    const result = await driver.start()
    const at = clock.monotonic()
    if (result.is === 'done') this.#send({ type: 'started', at })
    else if (result.exitCode !== undefined) this.#fail(result.exitCode, result.reason)
    else {
      const retryMs = this.#retryMs(failures + 1)
      log.error({ reason: result.reason, retryMs }, 'the worker could not be started; trying again')
      this.#send({ type: 'not started', at, retryAt: at + retryMs })
    }
  }

  async #stop(failures: number): Promise<void> {
    const { driver, log, clock } = this.#ports
    log.info({}, 'nothing is in flight; stopping the worker')
    const result = await driver.stop()
    const at = clock.monotonic()
    if (result.is === 'done') {
      log.info({}, 'the worker has stopped')
      this.#send({ type: 'stopped', at })
      return
    }
    const retryMs = this.#retryMs(failures + 1)
    log.error({ reason: result.reason, retryMs }, 'the worker could not be stopped; trying again')
    this.#send({ type: 'not stopped', at, retryAt: at + retryMs })
  }

  onWorkerEnded(result: DriverResult): void {
    const { log, clock } = this.#ports
    this.#cancelTimer()
    this.#newestRequest += 1
    if (result.is === 'failed' && result.exitCode !== undefined) {
      this.#fail(result.exitCode, result.reason)
      return
    }
    log.warn(
      result.is === 'failed' ? { reason: result.reason } : {},
      'the worker ended by itself; starting it again',
    )
    this.#send({ type: 'worker ended', at: clock.monotonic() })
  }

  #fail(exitCode: number, reason: string): void {
    this.#send({ type: 'worker failed for good', exitCode, reason })
  }

  async #release(stopPending: boolean): Promise<void> {
    const { driver, demand, log } = this.#ports
    this.#newestRequest += 1
    const worker = this.#newestDemand?.worker
    const isDrained = worker !== undefined && holdsOwnDrain(worker)
    if (driver.ownsWorker) await driver.stop()
    else if (isDrained && stopPending)
      log.warn({}, `the worker stays drained, because a stop may still be under way; ${END_OF_DRAIN}`)
    else if (isDrained) {
      log.info({}, 'ending the drain of this supervisor')
      await demand.ask('lift')
    }
    this.#send({ type: 'released' })
  }

  // ---- time ----------------------------------------------------------------------------------------------------------

  #sendAfter(ms: number, event: SupervisorEvent): void {
    this.#cancelTimer()
    this.#cancelTimer = this.#ports.clock.after(ms, () => this.#send(event))
  }

  /** A fifth more or less, so that many supervisors do not ask at the same moment. */
  #pollMs(silences: number): number {
    const { pollMs, random } = this.#ports
    const spreadMs = pollMs * (0.8 + 0.4 * random.fraction())
    if (silences === 0) return spreadMs
    return Math.max(spreadMs, backoffMs(silences, pollMs, SILENCE_POLL_MS_MAX, random.fraction()))
  }

  #retryMs(failures: number): number {
    const roll = this.#ports.random.fraction()
    return backoffMs(Math.max(1, failures), SUPERVISOR_RETRY_MS_FIRST, SUPERVISOR_RETRY_MS_MAX, roll)
  }
}

/** A host that is back must not wait long for a supervisor. */
const SILENCE_POLL_MS_MAX = 60_000
const END_OF_DRAIN = 'the next supervisor starts it and ends the drain, or: switchyard workers enable WORKER'
const HOST_TOO_OLD =
  'the host does not say whose a drain is, so the worker stays drained; install this version on the host, then: switchyard workers enable WORKER'
