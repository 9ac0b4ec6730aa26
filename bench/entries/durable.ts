/**
 * Measures durable changes: a record is on disk before its caller gets an answer.
 *
 * The contestants do the same work on the same disk: lmdb-js by hand, the store's control database, and actors
 * whose transition is committed before its effect answers. In the end a newly opened database must hold the number
 * of answered steps.
 *
 * `hot` and `spread` are the workloads below. Each caller waits for its answer, so the number of callers is the
 * size of a batch.
 */
import type { BenchResources } from '../bench-resources.ts'
import { type Effort, type Entry, measureWhenSteady } from '../entry.ts'
import { compareMeasurements, type Figure, type Measurement, type Target } from '../figures.ts'
import { type CounterContext, leaseContext, smallContext } from '../raw/counter.ts'
import {
  actorSystemStepper,
  databaseStepper,
  encodedBytes,
  lmdbStepper,
  type MakeStepper,
  readyBytesStepper,
  type Stepper,
} from '../raw/durable-steps.ts'
import { amount } from '../table.ts'

const CALLERS = [1, 64, 1024] as const
const CALLERS_MAX = 1024
const SPREAD_ACTORS = 10_000
/**
 * A virtual disk is ten times slower for seconds at a time. So a round consists of slices that are short beside that,
 * and the contestants take turns at every slice.
 */
const SLICES = 8
const TARGET = { of: 'ratio', is: 'at least', bound: 0.6 } as const

interface Workload {
  readonly name: string
  readonly contexts: readonly CounterContext[]
  /** Chooses the actor that a caller steps next; each contestant starts its own order. */
  readonly order: () => (caller: number) => number
}

const actorName = (at: number): string => `actor-${String(at).padStart(5, '0')}`

/** A small actor for each caller, so that all records lie in a few pages. */
const hot = (): Workload => ({
  name: 'hot',
  contexts: Array.from({ length: CALLERS_MAX }, (_, at) => smallContext(actorName(at))),
  order: () => (caller) => caller,
})

/**
 * Ten thousand actors as large as a lease; each caller steps a pseudo-random one, in the same order for all contestants.
 *
 * Two steps of one actor in one batch are two puts by hand and one in the actor system, which writes an actor once per
 * commit: at most one step in twenty with 1,024 callers.
 */
const spreadOut = (): Workload => ({
  name: 'spread',
  contexts: Array.from({ length: SPREAD_ACTORS }, (_, at) => leaseContext(actorName(at), at)),
  order: () => {
    const seeds = Uint32Array.from({ length: CALLERS_MAX }, (_, caller) => caller)
    return (caller) => {
      // The generator of Numerical Recipes; its upper bits are the random ones.
      const next = (Math.imul(seeds[caller] ?? 0, 1_664_525) + 1_013_904_223) >>> 0
      seeds[caller] = next
      return Math.floor((next / 2 ** 32) * SPREAD_ACTORS)
    }
  },
})

export const durable: Entry = {
  name: 'durable',
  about: 'durable writes and transitions a second / lmdb-js group commit',
  async measure(effort, resources) {
    const same = { raw: lmdbStepper, database: databaseStepper, actors: actorSystemStepper }
    const [hotBytes, spreadBytes] = [
      await encodedLength(hot(), resources),
      await encodedLength(spreadOut(), resources),
    ]
    return [
      ...(await compareSteppers(
        hot(),
        hotBytes,
        { ...same, ready: readyBytesStepper(hotBytes) },
        effort,
        resources,
      )),
      ...(await compareSteppers(spreadOut(), spreadBytes, same, effort, resources)),
    ]
  },
}

async function encodedLength({ contexts }: Workload, resources: BenchResources): Promise<number> {
  const folder = resources.createFolder('length')
  const [first] = contexts
  const bytes = first === undefined ? 0 : await encodedBytes(folder, first)
  resources.removeFolder(folder)
  return bytes
}

type StepperKind = 'raw' | 'database' | 'actors' | 'ready'
type Makers = Readonly<Record<Exclude<StepperKind, 'ready'>, MakeStepper>> & { readonly ready?: MakeStepper }

async function compareSteppers(
  workload: Workload,
  bytes: number,
  makers: Makers,
  effort: Effort,
  resources: BenchResources,
): Promise<Figure[]> {
  const contestants: StepperContestant[] = []
  for (const [who, make] of Object.entries(makers)) {
    const folder = resources.createFolder(who)
    const stepper = await make(folder, workload.contexts)
    contestants.push(new StepperContestant(who as StepperKind, folder, stepper, workload))
  }
  const figures: Figure[] = []
  for (const callers of CALLERS)
    figures.push(...(await compareWithCallers(callers, workload, bytes, contestants, effort)))
  for (const contestant of contestants) {
    await contestant.verify()
    resources.removeFolder(contestant.folder)
  }
  return figures
}

async function compareWithCallers(
  callers: number,
  { name, contexts }: Workload,
  bytes: number,
  contestants: readonly StepperContestant[],
  effort: Effort,
): Promise<Figure[]> {
  for (const contestant of contestants) contestant.reset()
  const measurements = contestants.map(
    (each) => [each.who, () => each.measureSteps(callers, effort.roundMs / SLICES)] as const,
  )
  const slices = await measureWhenSteady<string>(effort.rounds * SLICES, Object.fromEntries(measurements))
  const figure = (
    what: string,
    ours: StepperKind,
    raw: StepperKind,
    target: Target | undefined,
    note: string,
  ): Figure => {
    const measured = slices.map((slice) => ({
      ours: slice[ours] as Measurement,
      raw: slice[raw] as Measurement,
    }))
    const label = { name: `${what}, ${name}, ${callers}`, unit: 'a second', notes: [note] }
    return compareMeasurements(target === undefined ? label : { ...label, target }, measured, SLICES)
  }
  const work = `raw: lmdb encodes the same changing record, ${bytes} bytes; ${amount(contexts.length)} actors`
  const figures = [
    figure('database commit', 'database', 'raw', TARGET, work),
    figure('actor transition', 'actors', 'raw', TARGET, work),
  ]
  if (contestants.some(({ who }) => who === 'ready')) {
    const less = `raw: less work, ${bytes} ready bytes that never change, so there is no target`
    figures.push(figure('actor transition / ready bytes', 'actors', 'ready', undefined, less))
  }
  return figures
}

/** A contestant: steps actors, counts the answered steps and measures their cost. */
class StepperContestant {
  readonly who: StepperKind
  readonly folder: string
  readonly #stepper: Stepper
  readonly #workload: Workload
  readonly #answered: Uint32Array
  #next: (caller: number) => number

  constructor(who: StepperKind, folder: string, stepper: Stepper, workload: Workload) {
    this.who = who
    this.folder = folder
    this.#stepper = stepper
    this.#workload = workload
    this.#answered = new Uint32Array(workload.contexts.length)
    this.#next = workload.order()
  }

  /** Restarts the order of actors. */
  reset(): void {
    this.#next = this.#workload.order()
  }

  /**
   * Steps per second with this many callers, each of which asks again after its answer. Processor time is that of this
   * process, including the database's thread; the disk's time does not count.
   */
  async measureSteps(callers: number, ms: number): Promise<Measurement> {
    const [from, cpu] = [performance.now(), process.cpuUsage()]
    const until = from + ms
    let answers = 0
    const caller = async (at: number): Promise<void> => {
      while (performance.now() < until) {
        const actor = this.#next(at)
        await this.#stepper.step(actor, at)
        this.#answered[actor] = (this.#answered[actor] ?? 0) + 1
        answers++
      }
    }
    await Promise.all(Array.from({ length: callers }, (_, at) => caller(at)))
    const perSecond = answers / ((performance.now() - from) / 1000)
    const { user, system } = process.cpuUsage(cpu)
    return { value: perSecond, cpuMicros: (user + system) / answers }
  }

  async verify(): Promise<void> {
    const stored = await this.#stepper.finish()
    if (stored === undefined) return
    const wrong = stored.findIndex((count, actor) => count !== this.#answered[actor])
    if (wrong < 0) return
    const { name } = this.#workload.contexts[wrong] as CounterContext
    throw new Error(
      `${this.who}: ${name} has ${this.#answered[wrong]} answered steps but ${stored[wrong]} on disk`,
    )
  }
}
