/**
 * Measures reports per second through a worker's outbox: reported, numbered, written to disk, sent, acknowledged,
 * removed from disk.
 *
 * For comparison a process writes the same texts by hand into LMDB and sends them over the same kind of socket.
 * Both send to a server that only counts.
 */
import { type BenchHost, startBareHost } from '../bench-hosts.ts'
import type { BenchProcess, BenchResources } from '../bench-resources.ts'
import { type Effort, type Entry, measureWhenSteady } from '../entry.ts'
import { compareMeasurements, type Measurement } from '../figures.ts'
import { ACK_FRAMES, type LoadTiming } from '../raw/worker-load-protocol.ts'

/** A multiple of the acknowledgement size: remaining frames would wait for a heartbeat. */
const FRAMES = ACK_FRAMES * 60
const FRAMES_QUICK = ACK_FRAMES * 20

type OutboxContestant = 'ours' | 'bare'

export const outbox: Entry = {
  name: 'outbox',
  about: 'reports a second through a worker’s outbox on disk / the raw parts by hand',
  async measure(effort, resources) {
    const ours = await startContestant(resources, 'ours')
    const raw = await startContestant(resources, 'bare')
    const rounds = await measureWhenSteady(effort.rounds, {
      ours: () => ours.measureOnce(effort),
      raw: () => raw.measureOnce(effort),
    })
    await ours.leave()
    await raw.leave()
    return [compareMeasurements({ name: 'outbox, reports', unit: 'a second' }, rounds)]
  },
}

async function startContestant(resources: BenchResources, who: OutboxContestant) {
  const host: BenchHost = await startBareHost(resources, 'bare-frames', 'sink')
  const folder = resources.createFolder(`outbox-${who}`)
  const child: BenchProcess = resources.startScript('bench/raw/outbox.ts', folder, String(host.port), who)
  await child.readLine()
  return {
    async measureOnce({ quick }: Effort): Promise<Measurement> {
      const count = quick ? FRAMES_QUICK : FRAMES
      child.writeLine(String(count))
      const timing = JSON.parse(await child.readLine()) as LoadTiming
      return { value: count / (timing.ms / 1000), cpuMicros: (timing.cpuMs * 1000) / count }
    },
    async leave(): Promise<void> {
      await child.stop()
      await host.stop()
      resources.removeFolder(folder)
    },
  }
}
