/** PeerHost is a peer with its load: the counterpart of a host with simulated workers. */
import type { BenchResources } from './bench-resources.ts'
import type { PeerDefinition, PeerName } from './peers/peer.ts'
import type { QueueLoadCommand, QueueLoadOptions } from './raw/queue-load-protocol.ts'
import type { DispatchWaits, EnqueueTiming } from './raw/worker-load-protocol.ts'
import { LOAD_MS_MAX, PRODUCERS } from './worker-load.ts'

export interface PeerHost {
  readonly name: PeerName
  /** Its processor time includes that of its children. */
  readonly pid: number
  readonly jobBytes: number
  runJobs(count: number): Promise<EnqueueTiming>
  measureDispatches(count: number, restMs: number): Promise<readonly number[]>
  stop(): Promise<void>
}

export async function startPeerHost(
  resources: BenchResources,
  { name, protocol, program, start }: PeerDefinition,
  workers: number,
  slots: number,
): Promise<PeerHost> {
  const server = await start(resources, program)
  const options: QueueLoadOptions = { protocol, port: server.port, producers: PRODUCERS, workers, slots }
  const load = resources.startScript('bench/raw/queue-load.ts', JSON.stringify(options))
  const jobBytes = Number(await load.readLine())
  const request = async (command: QueueLoadCommand): Promise<unknown> => {
    load.writeLine(JSON.stringify(command))
    return JSON.parse(await load.readLine(LOAD_MS_MAX))
  }
  return {
    name,
    pid: server.pid,
    jobBytes,
    runJobs: (count) => request({ do: 'jobs', count }) as Promise<EnqueueTiming>,
    measureDispatches: async (count, restMs) =>
      ((await request({ do: 'dispatches', count, restMs })) as DispatchWaits).waits,
    async stop() {
      await load.stop()
      await server.stop()
    },
  }
}
