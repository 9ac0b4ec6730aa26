/**
 * Full cycles a second: queued, lease on disk, dispatched, accepted, completed, on disk, acknowledged.
 *
 * Beside ours a bare server does the same durable steps with the same frames for the same crew. Runs wait on our disk
 * before the host starts, so their making is not measured. A round is a number of cycles and not a time, because
 * whoever is not measured holds a run in every slot and rests. What a host leaves for later (ours moves events into
 * files) is done before the other's turn; its processor time counts, its time does not.
 */

import { bareYard, ourYard, type Yard } from '../bench-hosts.ts'
import { atRest, cpuMs, type Workshop } from '../bench-resources.ts'
import { type Effort, type Entry, inTurn } from '../entry.ts'
import { compared, type Figure, spread, type Target } from '../figures.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'

export const WORKERS = 8
export const SLOTS = 8
const TARGET = { of: 'ratio', is: 'at least', bound: 1 } as const

interface Load {
  readonly events: number
  readonly count: number
  readonly countQuick: number
  readonly target?: Target
}

const LOADS: readonly Load[] = [
  { events: 0, count: 1_500, countQuick: 1_000, target: TARGET },
  { events: 20, count: 750, countQuick: 400 },
]

export const cycles: Entry = {
  name: 'cycles',
  about: 'runs from queued to acknowledged a second / uWebSockets.js and lmdb by hand',
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const yards = await bothYards(workshop, waitingFor(effort))
    const figures: Figure[] = []
    for (const load of LOADS) figures.push(await race(yards, load, effort))
    await Promise.all([yards.ours.leave(), yards.raw.leave()])
    return figures
  },
}

type Yards = Readonly<Record<'ours' | 'raw', Yard>>

/** With the first turn, which is thrown away, and those that are held at the end. */
function waitingFor(effort: Effort): number {
  const counts = LOADS.map((load) => countOf(load, effort) * (effort.rounds + 1))
  return counts.reduce((sum, count) => sum + count, WORKERS * SLOTS)
}

const countOf = (load: Load, { quick }: Effort): number => (quick ? load.countQuick : load.count)

async function bothYards(workshop: Workshop, waiting: number): Promise<Yards> {
  const yards = { ours: await ourYard(workshop, { waiting }), raw: await bareYard(workshop, 'bare-cycles') }
  for (const { crew } of Object.values(yards)) await crew.enroll(WORKERS, SLOTS)
  return yards
}

async function race(yards: Yards, load: Load, effort: Effort): Promise<Figure> {
  const count = countOf(load, effort)
  const busy = { ours: [] as Busy[], raw: [] as Busy[] }
  const turn = (who: 'ours' | 'raw') => async () => {
    const { perSecond, ...rest } = await cyclesOf(yards[who], count, load.events)
    busy[who].push(rest)
    return perSecond
  }
  const pairs = await inTurn(effort.rounds, { ours: turn('ours'), raw: turn('raw') })
  const name = `cycles, ${load.events} events, ${WORKERS} × ${SLOTS}`
  const label = { name, unit: 'a second', notes: notes(busy) }
  return compared(load.target === undefined ? label : { ...label, target: load.target }, pairs)
}

interface Busy {
  /** Processor time of the host for one cycle. */
  readonly micros: number
  /** The same, of what is left to do when the last is acknowledged. */
  readonly laterMicros: number
  /** Processor time by wall time. */
  readonly host: number
  readonly crew: number
}

export async function cyclesOf(
  { child, crew }: Yard,
  count: number,
  events: number,
): Promise<Busy & { readonly perSecond: number }> {
  await crew.hold(WORKERS * SLOTS)
  const before = cpuMs(child.pid) ?? Number.NaN
  const { ms, crewMs } = await crew.cycles(count, events)
  const spent = (cpuMs(child.pid) ?? Number.NaN) - before
  const later = (await atRest(child.pid)) - before - spent
  const perCycle = 1000 / count
  return {
    perSecond: count / (ms / 1000),
    micros: spent * perCycle,
    laterMicros: later * perCycle,
    host: spent / ms,
    crew: crewMs / ms,
  }
}

function notes(busy: Readonly<Record<'ours' | 'raw', readonly Busy[]>>): string[] {
  const middle = (who: 'ours' | 'raw', what: keyof Busy): number =>
    spread(busy[who].map((one) => one[what])).median
  const [own, bare] = [middle('ours', 'micros'), middle('raw', 'micros')]
  const share = (who: 'ours' | 'raw'): string =>
    `${who} ${amount(100 * middle(who, 'host'))} % of a core, its crew ${amount(100 * middle(who, 'crew'))} %`
  return [
    `processor time a cycle: ours ${amount(own)} µs, and ${amount(middle('ours', 'laterMicros'))} µs later; raw ${amount(bare)} µs, raw/ours ${amount(bare / own)}`,
    `busy: ${share('ours')}; ${share('raw')}`,
  ]
}
