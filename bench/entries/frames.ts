/**
 * Reporting frames a second: eight leases send events of 300 bytes as fast as they may, with one dashboard watching.
 *
 * Each is validated, counted once, on disk before it is acknowledged, and told to the dashboard. No lease has more than
 * its window unacknowledged. The same crew sends the same frames to the ladder of raw parts, which does the same work
 * by hand, and to a sink that only counts them. `replay` is one lease after a broken line: the worker comes back, sends
 * all that it had kept, and the run's completion last.
 */

import { bareYard, ourYard, type Yard } from '../bench-hosts.ts'
import { atRest, type Child, cpuMs, type Workshop } from '../bench-resources.ts'
import { type Effort, type Entry, inTurn } from '../entry.ts'
import { compared, type Figure, spread } from '../figures.ts'
import { WINDOW_FRAMES } from '../raw/worker-load-protocol.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'

const LEASES = 8
const PER_LEASE = 10_000
const PER_LEASE_QUICK = 3_000
/** A dashboard was told at least so much of every frame. */
const TOLD_BYTES_MIN = 150

type Who = 'ours' | 'ladder' | 'sink'

interface Watched extends Yard {
  /** Nobody watches the sink. */
  readonly watcher: Child | undefined
}

export const frames: Entry = {
  name: 'frames',
  about: 'reporting frames a second, on disk and acknowledged / the raw parts by hand',
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const ours = await ourYard(workshop, { waiting: LEASES })
    const yards: Record<Who, Watched> = {
      ours: await watched(workshop, ours, { port: ours.served.port, token: ours.served.token }),
      ladder: await bare(workshop, 'ladder', LEASES),
      sink: await bare(workshop, 'sink', LEASES),
    }
    await yards.ours.crew.enroll(LEASES, 1)
    const figures = await stream(yards, effort)
    await leave(yards)
    return figures
  },
}

export const replay: Entry = {
  name: 'replay',
  about: `ms until ${WINDOW_FRAMES} frames that were kept are acknowledged / the raw parts by hand`,
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const ours = await ourYard(workshop, { waiting: effort.rounds + 3 })
    const yards = {
      ours: await watched(workshop, ours, { port: ours.served.port, token: ours.served.token }),
      ladder: await bare(workshop, 'ladder', 1),
    }
    await yards.ours.crew.enroll(1, 1)
    const turn = (who: 'ours' | 'ladder') => async () => {
      const { crew, child } = yards[who]
      await crew.hold(1)
      const { ms } = await crew.replay(WINDOW_FRAMES)
      await atRest(child.pid)
      return ms
    }
    const rounds = await inTurn(effort.rounds, { ours: turn('ours'), ladder: turn('ladder') })
    await leave(yards)
    const pairs = rounds.map((round) => ({ ours: round.ours, raw: round.ladder }))
    const target = { of: 'ours', is: 'at most', bound: 300 } as const
    const notes = ['from dialling anew to the acknowledgement of the completion, which is the last of them']
    return [compared({ name: `replay of ${amount(WINDOW_FRAMES)} frames`, unit: 'ms', target, notes }, pairs)]
  },
}

async function bare(workshop: Workshop, how: 'ladder' | 'sink', workers: number): Promise<Watched> {
  const yard = await bareYard(workshop, 'bare-frames', how)
  await yard.crew.enroll(workers, 1)
  return how === 'sink' ? { ...yard, watcher: undefined } : watched(workshop, yard, { port: yard.port })
}

async function watched(
  workshop: Workshop,
  yard: Yard,
  { port, token }: { readonly port: number; readonly token?: string },
): Promise<Watched> {
  const tokens = token === undefined ? [] : [token]
  const watcher = workshop.script('bench/raw/dashboard-clients.ts', String(port), '1', ...tokens)
  await watcher.line()
  return { ...yard, watcher }
}

async function leave(yards: Readonly<Record<string, Watched>>): Promise<void> {
  for (const { watcher, leave } of Object.values(yards)) {
    await watcher?.stop()
    await leave()
  }
}

async function stream(yards: Readonly<Record<Who, Watched>>, effort: Effort): Promise<Figure[]> {
  const perLease = effort.quick ? PER_LEASE_QUICK : PER_LEASE
  const micros: Record<Who, number[]> = { ours: [], ladder: [], sink: [] }
  const crewShare: Record<Who, number[]> = { ours: [], ladder: [], sink: [] }
  const turn = (who: Who) => async () => {
    const { crew, child, watcher } = yards[who]
    const count = perLease * LEASES
    await crew.hold(LEASES)
    const before = cpuMs(child.pid) ?? Number.NaN
    watcher?.say(String(count * TOLD_BYTES_MIN))
    const { ms, crewMs } = await crew.frames(perLease)
    micros[who].push((((cpuMs(child.pid) ?? Number.NaN) - before) * 1000) / count)
    crewShare[who].push(crewMs / ms)
    await watcher?.line()
    await atRest(child.pid)
    return count / (ms / 1000)
  }
  const rounds = await inTurn(effort.rounds, {
    ours: turn('ours'),
    ladder: turn('ladder'),
    sink: turn('sink'),
  })
  const cost = (who: Who): string =>
    `${who} ${amount(spread(micros[who]).median)} µs (its crew ${amount(100 * spread(crewShare[who]).median)} % of a core)`
  const notes = [`processor time a frame: ${cost('ours')}, ${cost('ladder')}, ${cost('sink')}`]
  const against = (raw: 'ladder' | 'sink') => rounds.map((round) => ({ ours: round.ours, raw: round[raw] }))
  const target = { of: 'ratio', is: 'at least', bound: 0.7 } as const
  return [
    compared(
      { name: `frames, ${LEASES} leases / ladder`, unit: 'a second', target, notes },
      against('ladder'),
    ),
    compared({ name: `frames, ${LEASES} leases / sink`, unit: 'a second' }, against('sink')),
  ]
}
