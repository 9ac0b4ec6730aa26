/**
 * `runSchedule` simulates a supervisor, its worker and their host, by a schedule drawn from a seed: work comes and goes, operators drain and
 * enable, answers are late or lost, and supervisor, worker and host die. Three quiet hours without faults follow.
 *
 * Laws: no stop destroys a run or a terminal that the host could have named; no operator's drain is lifted; nothing is
 * started while somebody else drains; work does not wait for ever; an idle worker is stopped in the end.
 */
import {
  createWorkerSupervisor,
  type WorkerSupervisor,
} from '../../../actors/worker-supervisor/create-worker-supervisor.ts'
import type { DriverResult, WorkerDriver } from '../../../core/fleet/supervision.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { Random } from '../../support/random.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { SupervisedHost, type WorkInFlight } from './supervised-host.ts'
import { SupervisedWorker } from './supervised-worker.ts'

export type SupervisorLaw = 'destroyed' | 'lifted' | 'woken' | 'waits' | 'awake'

export class LawBroken extends Error {
  readonly law: SupervisorLaw

  constructor(law: SupervisorLaw, message: string) {
    super(message)
    this.law = law
  }
}

export interface ScheduleResult {
  readonly stops: number
  readonly runs: number
}

const FAULTS_MS = 2 * 3_600_000
const QUIET_MS = 3 * 3_600_000
const DONE: DriverResult = { is: 'done' }
const failed = (reason: string): DriverResult => ({ is: 'failed', reason })

class SupervisedWorld {
  readonly clock = new ManualClock()
  readonly random: Random
  readonly host: SupervisedHost
  readonly worker: SupervisedWorker
  readonly isChild: boolean
  stops = 0
  runs = 0
  violation: LawBroken | undefined
  #supervisor: WorkerSupervisor | undefined
  /** Increases when a supervisor dies; the callbacks of a dead one have no effect. */
  #generation = 0
  /** Increases with each successful start, which makes an earlier stop without effect. */
  #starts = 0
  #onStopped: () => void = () => {}

  constructor(seed: number) {
    this.random = new Random(seed)
    this.isChild = this.random.chance(0.5)
    this.host = new SupervisedHost(this.clock, this.random)
    this.worker = new SupervisedWorker(this.clock, this.random, this.host)
    this.worker.onDown = () => this.#onStopped()
  }

  breakLaw(law: SupervisorLaw, message: string): void {
    this.violation ??= new LawBroken(law, `${message} at ${this.clock.monotonic() / 1_000} s`)
  }

  // ---- the supervisor ------------------------------------------------------------------------------------------------

  startSupervisor(): void {
    const generation = this.#generation
    const isAlive = () => generation === this.#generation
    const never = new Promise<never>(() => {})
    const clock: Clock = {
      now: () => this.clock.now(),
      monotonic: () => this.clock.monotonic(),
      after: (ms, run) => this.clock.after(ms, () => isAlive() && run()),
      endOfTick: (run) => this.clock.endOfTick(() => isAlive() && run()),
    }
    const driver = this.isChild ? this.#childDriver(isAlive) : this.#commandDriver()
    const whileAlive = async <T>(result: Promise<T>): Promise<T> => {
      const value = await result
      return isAlive() ? value : await never
    }
    const alive: WorkerDriver = {
      ownsWorker: driver.ownsWorker,
      start: () => whileAlive(this.#checkStart(driver.start())),
      stop: () => {
        this.stops += 1
        return whileAlive(driver.stop())
      },
    }
    driver.onEnded = (result) => isAlive() && alive.onEnded?.(result)
    this.#supervisor = createWorkerSupervisor({
      clock,
      random: { bytes: (count) => new Uint8Array(count), fraction: () => this.random.fraction() },
      log: createRecordingLog(),
      meters: noMeters,
      demand: { ask: (request) => whileAlive(this.host.ask(request, isAlive)) },
      driver: alive,
      settings: { idleMs: 60_000, upMs: 60_000, startsAbsent: !this.isChild },
      pollMs: 15_000,
      onEnd: () => this.breakLaw('waits', 'the supervisor ended by itself'),
    })
    this.#supervisor.start()
  }

  killSupervisor(): void {
    this.#generation += 1
    // The child's standard input is closed, so it finishes its runs and ends.
    if (this.isChild) this.worker.terminate()
    this.clock.after(this.random.below(60_000), () => this.startSupervisor())
  }

  async #checkStart(start: Promise<DriverResult>): Promise<DriverResult> {
    const { worker } = this.host.lastAnswer ?? {}
    const others = worker?.drainedBy?.some((holder) => holder !== 'supervisor') === true
    if (!this.isChild && others) this.breakLaw('woken', 'a worker that somebody else drains was started')
    return await start
  }

  // ---- the drivers ---------------------------------------------------------------------------------------------------

  #childDriver(isAlive: () => boolean): WorkerDriver {
    let isOwn = false
    let isStopping = false
    const driver: WorkerDriver = {
      ownsWorker: true,
      start: async () => {
        // Another process still uses the data directory.
        if (this.worker.state !== 'down') {
          this.clock.after(500, () => driver.onEnded?.(failed('in use')))
          return DONE
        }
        isOwn = true
        this.worker.boot()
        return DONE
      },
      stop: () => {
        if (this.worker.state === 'down' || !isOwn) return Promise.resolve(DONE)
        isStopping = true
        this.worker.terminate()
        return new Promise((resolve) => {
          const poll = () => {
            if (this.worker.state !== 'down') return void this.clock.after(500, poll)
            isStopping = false
            isOwn = false
            resolve(DONE)
          }
          poll()
        })
      },
    }
    this.#onStopped = () => {
      if (isAlive() && isOwn && !isStopping) driver.onEnded?.(failed('it died'))
      if (!isStopping) isOwn = false
    }
    return driver
  }

  #commandDriver(): WorkerDriver {
    const { random, clock } = this
    const pause = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve))
    return {
      ownsWorker: false,
      start: async () => {
        await pause(random.below(30_000))
        if (this.host.isFaulty && random.chance(0.2)) return failed('the cloud is away')
        this.#starts += 1
        clock.after(random.below(60_000), () => this.worker.boot())
        return DONE
      },
      stop: async () => {
        const fate = this.host.isFaulty ? random.fraction() : 1
        const starts = this.#starts
        const { answeredAt } = this.host
        if (fate < 0.1) return failed('the cloud is away')
        if (fate < 0.2) {
          // The command failed, and takes effect later, unless a start comes first.
          clock.after(random.below(60_000), () => {
            if (starts === this.#starts) this.#stopHard(answeredAt)
          })
          await pause(random.below(5_000))
          return failed('timed out')
        }
        await pause(random.below(500))
        this.#stopHard(answeredAt)
        await pause(random.below(10_000))
        return DONE
      },
    }
  }

  /**
   * The machine is off: what was in flight is lost. What came after the answer that led to the stop is excused when an
   * operator enabled the worker, or somebody attached to it.
   *
   * @param answeredAt when the host gave that answer
   */
  #stopHard(answeredAt: number): void {
    const excused = ({ byOperator, beganAt, what }: WorkInFlight) =>
      byOperator || (what === 'terminal' && beganAt >= answeredAt)
    const lost = this.worker.kill().filter((work) => !excused(work))
    if (lost.length > 0)
      this.breakLaw('destroyed', `a stop destroyed ${lost.map(({ what }) => what).join(', ')}`)
  }

  // ---- what happens --------------------------------------------------------------------------------------------------

  scheduleEvents(): void {
    const events: readonly (readonly [count: number, run: () => void])[] = [
      [30, () => this.addRun()],
      [10, () => this.worker.openTerminal(this.random.below(600_000))],
      [3, () => this.#drainAsOperator('operator')],
      [2, () => this.#drainAsOperator('worker')],
      [2, () => this.host.enable()],
      [3, () => this.killSupervisor()],
      [2, () => this.#killWorker()],
      [4, () => this.#breakConnection(this.random.below(200_000))],
      [2, () => this.#restartHost()],
    ]
    for (const [count, run] of events)
      for (let number = this.random.below(count + 1); number > 0; number--)
        this.clock.after(this.random.below(FAULTS_MS), run)
  }

  addRun(): void {
    this.runs += 1
    this.host.queue += 1
    this.host.schedule()
  }

  #drainAsOperator(by: 'operator' | 'worker'): void {
    this.host.drain(by)
    this.clock.after(this.random.below(900_000), () => {
      if (this.host.holders.length > 0 && !this.host.holders.includes(by) && by === 'operator') return
      if (this.random.chance(0.5)) this.host.enable()
      else this.host.release(by)
    })
  }

  #killWorker(): void {
    this.worker.kill()
    if (!this.isChild && this.random.chance(0.5)) this.clock.after(5_000, () => this.worker.boot())
  }

  #breakConnection(ms: number): void {
    this.worker.disconnect()
    this.worker.connectAfter(ms)
  }

  #restartHost(): void {
    this.host.isUp = false
    this.worker.disconnect()
    this.clock.after(5_000 + this.random.below(60_000), () => {
      this.host.isUp = true
      this.worker.connectAfter(this.random.below(15_000))
    })
  }

  endFaults(): void {
    this.host.isFaulty = false
    this.host.enable()
  }
}

/** Throws `LawBroken`. */
export async function runSchedule(seed: number): Promise<ScheduleResult> {
  const world = new SupervisedWorld(seed)
  const { clock, host, worker } = world
  const advance = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 60_000) {
      await clock.advance(60_000)
      if (world.violation !== undefined) throw world.violation
    }
  }
  if (!world.isChild && world.random.chance(0.5)) worker.boot()
  world.startSupervisor()
  world.scheduleEvents()
  await advance(FAULTS_MS + 1_000_000)
  world.endFaults()
  await advance(QUIET_MS / 2)
  // The worker sleeps by now, undrained, so work wakes it.
  world.addRun()
  await advance(QUIET_MS / 2)
  if (host.queue > 0 || host.runs.size > 0) throw new LawBroken('waits', `${host.queue} runs wait at the end`)
  if (worker.state !== 'down') throw new LawBroken('awake', `an idle worker is ${worker.state} at the end`)
  return { stops: world.stops, runs: world.runs }
}
