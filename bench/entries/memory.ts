/**
 * Measures the resident memory of the idle host, with few and many stored runs, before and after requests.
 *
 * `VmRSS` includes pages of the database, which the system can reclaim; the notes show the process's own memory.
 * For scale: an idle Node process with the same two native libraries.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchResources } from '../bench-resources.ts'
import type { Entry } from '../entry.ts'
import { absoluteFigure, type Figure, spread } from '../figures.ts'
import { dataDirWithHistory, HISTORY_RUNS } from '../history.ts'
import { createLoadGenerator } from '../load.ts'
import { type ResidentMemory, residentMemory } from '../process-usage.ts'
import { buildProduct, type ServedHost, startHost } from '../served-host.ts'
import { amount } from '../table.ts'

const IDLE_MS = 5_000
const LOAD_MS = 2_000
const ROUNDS_MAX = 2
const TARGET = { of: 'ours', is: 'at most', bound: 120 } as const

export const memory: Entry = {
  name: 'memory',
  about: 'resident memory of the idle host',
  async measure(effort, resources) {
    await buildProduct(resources)
    const places = { empty: resources.createFolder('empty'), old: await dataDirWithHistory(resources) }
    const bare = resources.startScript('bench/raw/idle-host.ts')
    await bare.readLine()
    const seen = { empty: [] as HostMemory[], old: [] as HostMemory[] }
    // Resident memory hardly varies between starts.
    for (let round = 0; round < Math.min(effort.rounds, effort.quick ? 1 : ROUNDS_MAX); round++) {
      const [empty, old] = await measureHosts(resources, [places.empty, places.old])
      if (empty !== undefined) seen.empty.push(empty)
      if (old !== undefined) seen.old.push(old)
    }
    const floor = residentMemory(bare.pid)
    await bare.stop()
    for (const folder of Object.values(places)) resources.removeFolder(folder)
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
        seen.empty.map(({ loaded }) => loaded),
      ),
      figure(
        `memory, after requests, ${HISTORY_RUNS / 1000}k runs`,
        seen.old.map(({ loaded }) => loaded),
      ),
    ]
  },
}

interface HostMemory {
  readonly idle: ResidentMemory
  readonly loaded: ResidentMemory
}

/**
 * Starts all hosts side by side, because idle hosts do not disturb each other, and loads them one after the other.
 */
async function measureHosts(resources: BenchResources, dataDirs: readonly string[]): Promise<HostMemory[]> {
  const hosts: ServedHost[] = []
  for (const dataDir of dataDirs) hosts.push(await startHost(resources, dataDir))
  await sleep(IDLE_MS)
  const idle = hosts.map(({ child }) => residentMemory(child.pid))
  for (const served of hosts) await loadHost(resources, served)
  await sleep(IDLE_MS)
  const loaded = hosts.map(({ child }) => residentMemory(child.pid))
  await Promise.all(hosts.map(({ child }) => child.stop()))
  return hosts.map((_, at) => ({ idle: idle[at] as ResidentMemory, loaded: loaded[at] as ResidentMemory }))
}

async function loadHost(resources: BenchResources, { child, port, token }: ServedHost): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  await createLoadGenerator(resources).run(
    { port, path: '/api/config', headers, expect: 200, pid: child.pid },
    LOAD_MS,
  )
}

function figure(name: string, values: readonly ResidentMemory[], ...notes: string[]): Figure {
  const own = amount(spread(values.map(({ ownMib }) => ownMib)).median)
  return absoluteFigure(
    { name, unit: 'MiB', target: TARGET, notes: [`${own} MiB its own`, ...notes] },
    values.map(({ mib }) => mib),
  )
}
