/**
 * One line of time for everything: what is to happen, in the order in which it happens.
 *
 * A happening belongs to a process or to nobody (the network, the disk, the weather). Of a dead process nothing
 * happens any more; what comes to a paused one waits until it goes on, in its order. After each happening of a
 * process that works with promises everything it set off is brought to rest: promises settle through the microtask
 * queue, then the ends of its tick run, until neither has anything left. So a step is whole before the next begins.
 */
import type { Random } from '../support/random.ts'

/** One incarnation of a process. */
export interface Process {
  readonly name: string
  dead: boolean
  pausedUntil: number
  /** What waits for the end of the current tick; undefined for processes that work without promises. */
  endOfTickCallbacks: (() => void)[] | undefined
}

export interface ScheduledStep {
  at: number
  order: number
  readonly owner: Process | undefined
  /** undefined once cancelled. */
  run: (() => void) | undefined
}

/** Settling that takes more rounds than this never ends. */
const SETTLE_ROUNDS_MAX = 10_000

export class Timeline {
  now = 0
  /** How many happenings there were. */
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

  /** Lets time pass. */
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
      if (owner?.endOfTickCallbacks !== undefined) await finishTick(owner, owner.endOfTickCallbacks)
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

/** It goes on and on: somebody keeps answering somebody. */
export class StepLimitExceeded extends Error {
  override readonly name = 'TooMuch'
}

function comesBefore(a: ScheduledStep, b: ScheduledStep): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}

async function finishTick(owner: Process, ends: (() => void)[]): Promise<void> {
  await microtasksDone()
  for (let round = 0; ends.length > 0; round++) {
    if (round > SETTLE_ROUNDS_MAX)
      throw new StepLimitExceeded(`${owner.name} never comes to the end of its tick`)
    for (const end of ends.splice(0)) if (!owner.dead) end()
    await microtasksDone()
  }
}

/** The queue of ticks is looked at only when no microtask is left, however many each of them made. */
export function microtasksDone(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve))
}

// ---- processes and their clocks ----------------------------------------------------------------------------------

/** What a machine's clocks are like; it outlives the processes on it. */
export interface SimMachine {
  readonly name: string
  /** How much faster than time itself: 0.99 to 1.01. */
  readonly rate: number
  /** Wall clock minus true time, in milliseconds. */
  wallOffset: number
}

const EPOCH = Date.UTC(2026, 0, 1)
/** A timer never fires before its time in whole milliseconds, whatever rounding does. */
const TIMER_DELAY_MS = 0.001

export const createMachine = (name: string, random: Random): SimMachine => ({
  name,
  rate: 0.99 + random.fraction() * 0.02,
  wallOffset: Math.floor(random.fraction() * 60_000),
})

/** What one process reads as the time. Of a dead process no timer fires. */
export class ProcessClock {
  readonly #time: Timeline
  readonly #process: Process
  readonly #machine: SimMachine
  readonly #startedAt: number

  constructor(time: Timeline, process: Process, createMachine: SimMachine) {
    this.#time = time
    this.#process = process
    this.#machine = createMachine
    this.#startedAt = time.now
  }

  now = (): number => Math.floor(EPOCH + this.#machine.wallOffset + this.#time.now * this.#machine.rate)

  monotonic = (): number => (this.#time.now - this.#startedAt) * this.#machine.rate

  after = (ms: number, run: () => void): (() => void) => {
    const step = this.#time.in(Math.max(0, ms) / this.#machine.rate + TIMER_DELAY_MS, run, this.#process)
    return () => {
      step.run = undefined
    }
  }

  endOfTick = (run: () => void): void => {
    if (!this.#process.dead) this.#process.endOfTickCallbacks?.push(run)
  }

  /** The true time at which this clock's `monotonic` will show `elapsed`. */
  trueTimeOf(elapsed: number): number {
    return this.#startedAt + elapsed / this.#machine.rate
  }
}
