/**
 * Measures reporting frames per second: eight leases send events of 300 bytes as fast as allowed, with one
 * dashboard watching.
 *
 * The host validates each frame, counts it once, writes it to disk before the acknowledgement, and pushes it to the
 * dashboard. No lease exceeds its window of unacknowledged frames. The same workers send the same frames to a
 * server built by hand from the raw parts (`ladder`) and to one that only counts them (`sink`). `replay`: a worker
 * reconnects and sends all kept frames of a lease, with the run's completion last.
 */
import { type BenchHost, startBareHost, startProductHost } from '../bench-hosts.ts'
import type { BenchProcess, BenchResources } from '../bench-resources.ts'
import { type Effort, type Entry, measureWhenSteady } from '../entry.ts'
import { compareMeasurements, type Figure, spread } from '../figures.ts'
import { cpuMs, waitUntilIdle } from '../process-usage.ts'
import { WINDOW_FRAMES } from '../raw/worker-load-protocol.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { WARM_UP_ROUNDS_MAX } from '../warm-up.ts'

const LEASES = 8
const PER_LEASE = 10_000
const PER_LEASE_QUICK = 3_000
/** Minimum length that the dashboard receives for every frame. */
const PUSHED_BYTES_MIN = 150

type FrameServer = 'ours' | 'ladder' | 'sink'

interface WatchedHost extends BenchHost {
  /** The sink has no dashboard. */
  readonly watcher: BenchProcess | undefined
}

export const frames: Entry = {
  name: 'frames',
  about: 'reporting frames a second, on disk and acknowledged / the raw parts by hand',
  async measure(effort, resources) {
    await buildProduct(resources)
    const ours = await startProductHost(resources, { waiting: LEASES })
    const hosts: Record<FrameServer, WatchedHost> = {
      ours: await withWatcher(resources, ours, { port: ours.served.port, token: ours.served.token }),
      ladder: await startWatchedBareHost(resources, 'ladder', LEASES),
      sink: await startWatchedBareHost(resources, 'sink', LEASES),
    }
    await hosts.ours.workerLoad.enroll(LEASES, 1)
    const figures = await compareStreams(hosts, effort)
    await stopAll(hosts)
    return figures
  },
}

export const replay: Entry = {
  name: 'replay',
  about: `ms until ${WINDOW_FRAMES} kept frames are acknowledged / the raw parts by hand`,
  async measure(effort, resources) {
    await buildProduct(resources)
    const ours = await startProductHost(resources, { waiting: effort.rounds + WARM_UP_ROUNDS_MAX + 2 })
    const hosts = {
      ours: await withWatcher(resources, ours, { port: ours.served.port, token: ours.served.token }),
      ladder: await startWatchedBareHost(resources, 'ladder', 1),
    }
    await hosts.ours.workerLoad.enroll(1, 1)
    const measureOnce = (who: 'ours' | 'ladder') => async () => {
      const { workerLoad, child } = hosts[who]
      await workerLoad.hold(1)
      const before = cpuMs(child.pid) ?? Number.NaN
      const { ms } = await workerLoad.replay(WINDOW_FRAMES)
      const spent = (await waitUntilIdle(child.pid)) - before
      return { value: ms, cpuMicros: (spent * 1000) / WINDOW_FRAMES }
    }
    const rounds = await measureWhenSteady(effort.rounds, {
      ours: measureOnce('ours'),
      ladder: measureOnce('ladder'),
    })
    await stopAll(hosts)
    const pairs = rounds.map((round) => ({ ours: round.ours, raw: round.ladder }))
    const target = { of: 'ratio', is: 'at most', bound: 1.3 } as const
    const notes = [
      'processor time of a frame',
      'from reconnecting to the acknowledgement of the completion, the last frame',
    ]
    return [
      compareMeasurements(
        { name: `replay of ${amount(WINDOW_FRAMES)} frames`, unit: 'ms', target, notes },
        pairs,
      ),
    ]
  },
}

async function startWatchedBareHost(
  resources: BenchResources,
  how: 'ladder' | 'sink',
  workers: number,
): Promise<WatchedHost> {
  const host = await startBareHost(resources, 'bare-frames', how)
  await host.workerLoad.enroll(workers, 1)
  return how === 'sink' ? { ...host, watcher: undefined } : withWatcher(resources, host, { port: host.port })
}

async function withWatcher(
  resources: BenchResources,
  host: BenchHost,
  { port, token }: { readonly port: number; readonly token?: string },
): Promise<WatchedHost> {
  const tokens = token === undefined ? [] : [token]
  const watcher = resources.startScript('bench/raw/dashboard-clients.ts', String(port), '1', ...tokens)
  await watcher.readLine()
  return { ...host, watcher }
}

async function stopAll(hosts: Readonly<Record<string, WatchedHost>>): Promise<void> {
  for (const { watcher, stop: leave } of Object.values(hosts)) {
    await watcher?.stop()
    await leave()
  }
}

async function compareStreams(
  hosts: Readonly<Record<FrameServer, WatchedHost>>,
  effort: Effort,
): Promise<Figure[]> {
  const perLease = effort.quick ? PER_LEASE_QUICK : PER_LEASE
  const loadShare: Record<FrameServer, number[]> = { ours: [], ladder: [], sink: [] }
  const measureOnce = (who: FrameServer) => async () => {
    const { workerLoad, child, watcher } = hosts[who]
    const count = perLease * LEASES
    await workerLoad.hold(LEASES)
    const before = cpuMs(child.pid) ?? Number.NaN
    watcher?.writeLine(String(count * PUSHED_BYTES_MIN))
    const { ms, cpuMs: crewMs } = await workerLoad.sendFrames(perLease)
    const spent = (cpuMs(child.pid) ?? Number.NaN) - before
    loadShare[who].push(crewMs / ms)
    await watcher?.readLine()
    await waitUntilIdle(child.pid)
    return { value: count / (ms / 1000), cpuMicros: (spent * 1000) / count }
  }
  const rounds = await measureWhenSteady(effort.rounds, {
    ours: measureOnce('ours'),
    ladder: measureOnce('ladder'),
    sink: measureOnce('sink'),
  })
  const share = (who: FrameServer): string => `${who} ${amount(100 * spread(loadShare[who]).median)} %`
  const notes = [`their workers, of a core: ${share('ours')}, ${share('ladder')}, ${share('sink')}`]
  const against = (raw: 'ladder' | 'sink') => rounds.map((round) => ({ ours: round.ours, raw: round[raw] }))
  const target = { of: 'ratio', is: 'at least', bound: 0.7 } as const
  return [
    compareMeasurements(
      { name: `frames, ${LEASES} leases / ladder`, unit: 'a second', target, notes },
      against('ladder'),
    ),
    compareMeasurements({ name: `frames, ${LEASES} leases / sink`, unit: 'a second' }, against('sink')),
  ]
}
