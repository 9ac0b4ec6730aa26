/**
 * What the idle host keeps resident, young and old, and after it has worked.
 *
 * `VmRSS` counts pages of the database that were read, which the system takes back when it needs them; the notes say
 * what is the process's own. For scale: an idle Node that has loaded the same two native libraries and nothing else.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Resident, resident, type Workshop } from '../bench-resources.ts'
import type { Entry } from '../entry.ts'
import { type Figure, measured, spread } from '../figures.ts'
import { dataDirWithHistory, HISTORY_RUNS } from '../history.ts'
import { generator } from '../load.ts'
import { buildProduct, type Served, serve } from '../served-host.ts'
import { amount } from '../table.ts'

const IDLE_MS = 5_000
const WORK_MS = 2_000
const ROUNDS_MAX = 2
const TARGET = { of: 'ours', is: 'at most', bound: 120 } as const

export const memory: Entry = {
  name: 'memory',
  about: 'resident memory of the idle host',
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const places = { empty: workshop.folder('empty'), old: await dataDirWithHistory(workshop) }
    const bare = workshop.script('bench/raw/idle-host.ts')
    await bare.line()
    const seen = { empty: [] as Looks[], old: [] as Looks[] }
    // Resident memory hardly varies from start to start.
    for (let round = 0; round < Math.min(effort.rounds, effort.quick ? 1 : ROUNDS_MAX); round++) {
      const [empty, old] = await look(workshop, [places.empty, places.old])
      if (empty !== undefined) seen.empty.push(empty)
      if (old !== undefined) seen.old.push(old)
    }
    const floor = resident(bare.pid)
    await bare.stop()
    for (const folder of Object.values(places)) workshop.removeFolder(folder)
    const note = `idle Node with uWebSockets.js and lmdb loaded: ${amount(floor.mib)} MiB, ${amount(floor.ownMib)} its own`
    return [
      figure(
        'memory, idle, empty',
        seen.empty.map(({ idle }) => idle),
        note,
      ),
      figure(
        `memory, idle, ${HISTORY_RUNS / 1000}k runs`,
        seen.old.map(({ idle }) => idle),
      ),
      figure(
        'memory, after requests, empty',
        seen.empty.map(({ worked }) => worked),
      ),
      figure(
        `memory, after requests, ${HISTORY_RUNS / 1000}k runs`,
        seen.old.map(({ worked }) => worked),
      ),
    ]
  },
}

interface Looks {
  readonly idle: Resident
  readonly worked: Resident
}

/** Side by side: idle hosts do not disturb each other. They work one after the other. */
async function look(workshop: Workshop, dataDirs: readonly string[]): Promise<Looks[]> {
  const hosts: Served[] = []
  for (const dataDir of dataDirs) hosts.push(await serve(workshop, dataDir))
  await sleep(IDLE_MS)
  const idle = hosts.map(({ child }) => resident(child.pid))
  for (const served of hosts) await work(workshop, served)
  await sleep(IDLE_MS)
  const worked = hosts.map(({ child }) => resident(child.pid))
  await Promise.all(hosts.map(({ child }) => child.stop()))
  return hosts.map((_, at) => ({ idle: idle[at] as Resident, worked: worked[at] as Resident }))
}

async function work(workshop: Workshop, { child, port, token }: Served): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  await generator(workshop).fire({ port, path: '/api/config', headers, expect: 200, pid: child.pid }, WORK_MS)
}

function figure(name: string, looks: readonly Resident[], ...notes: string[]): Figure {
  const own = amount(spread(looks.map(({ ownMib }) => ownMib)).median)
  return measured(
    { name, unit: 'MiB', target: TARGET, notes: [`${own} MiB its own`, ...notes] },
    looks.map(({ mib }) => mib),
  )
}
