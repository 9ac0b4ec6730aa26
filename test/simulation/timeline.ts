/**
 * Timeline runs all steps of a simulation in the order of their times.
 *
 * A step belongs to a process or to none (network, disk, people). Steps of a dead process do not run; steps of a
 * paused process wait, in order, until it resumes. After each step of a process that uses promises, the timeline
 * settles promises and end-of-tick callbacks until none is left. So a step is complete before the next one begins.
 */
import type { Random } from '../support/random.ts'

/** A process: one run of a program, from its start to its end. */
export interface Process {
  readonly name: string
  dead: boolean
  pausedUntil: number
  /** When the machine wakes, or woke, from its last sleep. */
  wakesAt?: number
  /** Callbacks for the end of the current tick; undefined for processes that use no promises. */
  endOfTickCallbacks: (() => void)[] | undefined
}

export interface ScheduledStep {
  at: number
  order: number
  readonly owner: Process | undefined
  /** Undefined once cancelled. */
  run: (() => void) | undefined
}

/** A tick that needs more rounds than this never ends. */
const SETTLE_ROUNDS_MAX = 10_000

export class Timeline {
  now = 0
  /** Number of steps that ran. */
  stepCount = 0
  readonly #heap: ScheduledStep[] = []
  #order = 0
  readonly #stepsMax: number

  constructor(countMax: number) {
    this.#stepsMax = countMax
  }

  at(time: number, run: () => void, owner?: Process): ScheduledStep {
    const step = { at: Math.max(time, this.now), order: this.#order++, owner, run }
    this.#push(step)
    return step
  }

  in(ms: number, run: () => void, owner?: Process): ScheduledStep {
    return this.at(this.now + ms, run, owner)
  }

  /** Runs all steps up to `end`. */
  async runUntil(end: number): Promise<void> {
    for (let next = this.#heap[0]; next !== undefined && next.at <= end; next = this.#heap[0]) {
      this.#pop()
      const { owner, run } = next
      if (run === undefined || owner?.dead === true) continue
      this.now = next.at
      if (owner !== undefined && owner.pausedUntil > this.now) {
        next.at = owner.pausedUntil
        next.order = this.#order++
        this.#push(next)
        continue
      }
      this.stepCount += 1
      if (this.stepCount > this.#stepsMax)
        throw new StepLimitExceeded(`more than ${this.#stepsMax} happenings`)
      run()
      if (owner?.endOfTickCallbacks === undefined) continue
      await microtasksDone()
      if (owner.endOfTickCallbacks.length > 0) await finishTick(owner, owner.endOfTickCallbacks)
    }
    this.now = end
  }

  #push(step: ScheduledStep): void {
    const heap = this.#heap
    let at = heap.push(step) - 1
    while (at > 0) {
      const above = (at - 1) >> 1
      const parent = heap[above] as ScheduledStep
      if (!comesBefore(step, parent)) break
      heap[at] = parent
      at = above
    }
    heap[at] = step
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return
    let at = 0
    for (;;) {
      const left = at * 2 + 1
      if (left >= heap.length) break
      const right = left + 1
      const least =
        right < heap.length && comesBefore(heap[right] as ScheduledStep, heap[left] as ScheduledStep)
          ? right
          : left
      if (!comesBefore(heap[least] as ScheduledStep, last)) break
      heap[at] = heap[least] as ScheduledStep
      at = least
    }
    heap[at] = last
  }
}

/** The simulation does not come to rest: processes keep answering each other. */
export class StepLimitExceeded extends Error {
  override readonly name = 'TooMuch'
}

function comesBefore(a: ScheduledStep, b: ScheduledStep): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}

async function finishTick(owner: Process, ends: (() => void)[]): Promise<void> {
  for (let round = 0; ends.length > 0; round++) {
    if (round > SETTLE_ROUNDS_MAX)
      throw new StepLimitExceeded(`${owner.name} never comes to the end of its tick`)
    for (const end of ends.splice(0)) if (!owner.dead) end()
    await microtasksDone()
  }
}

/** `process.nextTick` runs after all microtasks, however many each of them adds. */
export function microtasksDone(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve))
}

// ---- processes and their clocks ----------------------------------------------------------------------------------

/** The clocks of a machine; they outlive its processes. */
export interface SimMachine {
  readonly name: string
  /** Clock speed relative to true time: 0.99 to 1.01. */
  readonly rate: number
  /** Wall clock minus true time, in milliseconds. */
  wallOffset: number
  /** How long it has slept, including the rest of a present sleep: its monotonic clock stood still meanwhile. */
  sleptMs: number
  /** Whether it may sleep: only then its processes have to count sleeps, which takes many timers. */
  readonly maySleep: boolean
}

const EPOCH = Date.UTC(2026, 0, 1)
/** Keeps a timer from firing early by rounding. */
const TIMER_DELAY_MS = 0.001

export const createMachine = (name: string, random: Random, maySleep = false): SimMachine => ({
  name,
  rate: 0.99 + random.fraction() * 0.02,
  wallOffset: Math.floor(random.fraction() * 60_000),
  sleptMs: 0,
  maySleep,
})

/** The time that a machine's wall clock shows at a true time. */
export const wallTimeOf = ({ wallOffset, rate }: SimMachine, trueTime: number): number =>
  Math.floor(EPOCH + wallOffset + trueTime * rate)

/** The process and the clocks of its machine stand still, except for the wall clock. */
export function putToSleep(machine: SimMachine, process: Process, now: number, ms: number): boolean {
  if (process.pausedUntil > now) return false
  machine.sleptMs += ms
  process.pausedUntil = now + ms
  process.wakesAt = now + ms
  return true
}

/** The clock of one process; timers of a dead process do not fire. */
export class SimClock {
  readonly #time: Timeline
  readonly #process: Process
  readonly #machine: SimMachine
  readonly #startedAt: number
  readonly #sleptBeforeMs: number

  constructor(time: Timeline, process: Process, createMachine: SimMachine) {
    this.#time = time
    this.#process = process
    this.#machine = createMachine
    this.#startedAt = time.now
    this.#sleptBeforeMs = createMachine.sleptMs
  }

  now = (): number => wallTimeOf(this.#machine, this.#time.now)

  monotonic = (): number =>
    (this.#time.now - this.#startedAt - this.#machine.sleptMs + this.#sleptBeforeMs) * this.#machine.rate

  /** The time since the machine was started, sleep included. */
  uptime = (): number => this.#time.now * this.#machine.rate

  after = (ms: number, run: () => void): (() => void) => {
    const { sleptMs } = this.#machine
    const fire = () => {
      // A timer stands still with its clock.
      if (this.#machine.sleptMs > sleptMs) cancel = this.after(due - this.monotonic(), run)
      else run()
    }
    const due = this.monotonic() + ms
    const step = this.#time.in(Math.max(0, ms) / this.#machine.rate + TIMER_DELAY_MS, fire, this.#process)
    let cancel = () => {
      step.run = undefined
    }
    return () => cancel()
  }

  endOfTick = (run: () => void): void => {
    if (!this.#process.dead) this.#process.endOfTickCallbacks?.push(run)
  }

  /** The true time at which this clock's `monotonic` will show `elapsed`. */
  trueTimeOf(elapsed: number): number {
    return this.#startedAt + elapsed / this.#machine.rate
  }
}
