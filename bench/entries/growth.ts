/**
 * Whether a host grows slow with age: cycles and idle dispatch with a long past beside the same with a short one. And
 * what a finished run leaves on disk.
 *
 * A run's weight is that of a database in which so many runs were queued, executed and finished by a host, and nothing
 * else, when no page of it is empty. What its events take in their own file stands in the notes.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { ourYard, type Past } from '../bench-hosts.ts'
import { atRest, type Workshop } from '../bench-resources.ts'
import { type Effort, type Entry, inTurn } from '../entry.ts'
import { compared, type Figure, measured } from '../figures.ts'
import { HISTORY_RUNS } from '../history.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { cyclesOf, SLOTS, WORKERS } from './cycles.ts'
import { latencyOf, yardWithTickets } from './dispatch.ts'

const YOUNG: Past = { finished: 1_000 }
const OLD: Past = { finished: 'history' }
const CYCLES = 1_500
const CYCLES_QUICK = 500
const DISPATCHES = 8
const DISPATCHES_QUICK = 5
/** Longer than events wait to be moved into their files. */
const DISPATCH_REST_MS = 400
const WEIGHED = 2_000
const AGES = `${HISTORY_RUNS / 1000}k runs / 1k`

export const growth: Entry = {
  name: 'growth',
  about: `cycles, dispatch with ${AGES}; disk for a finished run`,
  async measure(effort, workshop) {
    await buildProduct(workshop)
    return [
      await cyclesByAge(workshop, effort),
      await dispatchByAge(workshop, effort),
      await weight(workshop),
    ]
  },
}

async function cyclesByAge(workshop: Workshop, effort: Effort): Promise<Figure> {
  const count = effort.quick ? CYCLES_QUICK : CYCLES
  const waiting = count * (effort.rounds + 1) + WORKERS * SLOTS
  const yards = {
    old: await ourYard(workshop, { ...OLD, waiting }),
    young: await ourYard(workshop, { ...YOUNG, waiting }),
  }
  for (const { crew } of Object.values(yards)) await crew.enroll(WORKERS, SLOTS)
  const turn = (who: 'old' | 'young') => async () => (await cyclesOf(yards[who], count, 0)).perSecond
  const rounds = await inTurn(effort.rounds, { old: turn('old'), young: turn('young') })
  for (const yard of Object.values(yards)) await yard.leave()
  const target = { of: 'ratio', is: 'at least', bound: 0.9 } as const
  return compared(
    { name: `cycles, ${AGES}`, unit: 'a second', target },
    rounds.map(({ old, young }) => ({ ours: old, raw: young })),
  )
}

async function dispatchByAge(workshop: Workshop, effort: Effort): Promise<Figure> {
  const yards = { old: await yardWithTickets(workshop, OLD), young: await yardWithTickets(workshop, YOUNG) }
  for (const { crew } of Object.values(yards)) await crew.enroll(1, 1)
  const count = effort.quick ? DISPATCHES_QUICK : DISPATCHES
  const turn = (who: 'old' | 'young') => async () =>
    (await latencyOf(yards[who], count, DISPATCH_REST_MS)).p50
  const rounds = await inTurn(effort.rounds, { old: turn('old'), young: turn('young') })
  for (const yard of Object.values(yards)) await yard.leave()
  const target = { of: 'ratio', is: 'at most', bound: 1.1 } as const
  return compared(
    { name: `idle dispatch p50, ${AGES}`, unit: 'ms', target },
    rounds.map(({ old, young }) => ({ ours: old, raw: young })),
  )
}

async function weight(workshop: Workshop): Promise<Figure> {
  const yard = await ourYard(workshop, { waiting: WEIGHED })
  await yard.crew.enroll(WORKERS, SLOTS)
  await yard.crew.cycles(WEIGHED, 0)
  await atRest(yard.child.pid)
  await yard.child.stop()
  const bytes = await compactBytes(workshop, yard.folder)
  const ownKiB = Number(
    execFileSync('du', ['-sk', join(yard.folder, 'runs')], { encoding: 'utf8' }).split('\t')[0],
  )
  await yard.leave()
  return measured(
    {
      name: 'disk for a finished run',
      unit: 'KiB',
      target: { of: 'ours', is: 'at most', bound: 2 },
      notes: [`its folder and the file of its own events: ${amount(ownKiB / WEIGHED)} KiB in whole blocks`],
    },
    [bytes / 1024 / WEIGHED],
  )
}

async function compactBytes(workshop: Workshop, folder: string): Promise<number> {
  const copy = workshop.folder('copy')
  const bytes = Number(
    await workshop.script('bench/raw/database-size.ts', join(folder, 'state'), copy).line(),
  )
  workshop.removeFolder(copy)
  return bytes
}
