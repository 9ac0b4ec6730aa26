/**
 * WorkerLoad is a process with many simulated workers; it connects them to a host.
 */
import type { BenchProcess, BenchResources } from './bench-resources.ts'
import type {
  DispatchWaits,
  EnqueueTiming,
  Enrollment,
  LoadTiming,
  WorkerLoadCommand,
} from './raw/worker-load-protocol.ts'

/** How many runs, or jobs of a peer, are requested at once. */
export const PRODUCERS = 64
/** The longest load, which a busy machine slows down. */
export const LOAD_MS_MAX = 300_000
/** Fewer than the host's limit for unregistered connections. */
const ENROLLED_AT_ONCE = 32

export interface BenchHostAddress {
  readonly port: number
  /** The launch token; a bare server needs none. */
  readonly token?: string
}

export class WorkerLoad {
  readonly #child: BenchProcess
  readonly #address: BenchHostAddress

  constructor(resources: BenchResources, address: BenchHostAddress) {
    this.#child = resources.startScript('bench/raw/worker-load.ts')
    this.#address = address
  }

  async enroll(workers: number, slots: number): Promise<readonly Enrollment[]> {
    const { port } = this.#address
    const members: Enrollment[] = []
    while (members.length < workers) {
      const requests = Array.from({ length: Math.min(ENROLLED_AT_ONCE, workers - members.length) }, () =>
        requestPairingToken(this.#address),
      )
      const tokens = await Promise.all(requests)
      members.push(...((await this.#request({ do: 'enroll', port, slots, tokens })) as Enrollment[]))
    }
    return members
  }

  async hold(leases: number): Promise<void> {
    await this.#request({ do: 'hold', leases })
  }

  completeRuns(count: number, events: number): Promise<LoadTiming> {
    return this.#request({ do: 'cycles', count, events }) as Promise<LoadTiming>
  }

  /** Requests runs of the tickets `T-0` and further, in turn, and completes them. */
  enqueueRuns(count: number, events: number, tickets: number): Promise<EnqueueTiming> {
    const { token = '' } = this.#address
    const order = { do: 'enqueue', token, producers: PRODUCERS, tickets, count, events } as const
    return this.#request(order) as Promise<EnqueueTiming>
  }

  sendFrames(perLease: number): Promise<LoadTiming> {
    return this.#request({ do: 'frames', perLease }) as Promise<LoadTiming>
  }

  replay(frames: number): Promise<LoadTiming> {
    return this.#request({ do: 'replay', frames }) as Promise<LoadTiming>
  }

  async measureDispatches(count: number, tickets: number, restMs: number): Promise<readonly number[]> {
    const { token = '' } = this.#address
    const { waits } = (await this.#request({
      do: 'dispatches',
      token,
      count,
      tickets,
      restMs,
    })) as DispatchWaits
    return waits
  }

  async setHeartbeatInterval(everyMs: number): Promise<void> {
    await this.#request({ do: 'beat', everyMs })
  }

  stop(): Promise<void> {
    return this.#child.stop()
  }

  async #request(order: WorkerLoadCommand): Promise<unknown> {
    this.#child.writeLine(JSON.stringify(order))
    return JSON.parse(await this.#child.readLine(LOAD_MS_MAX))
  }
}

async function requestPairingToken({ port, token }: BenchHostAddress): Promise<string> {
  if (token === undefined) return 'anybody'
  const headers = { authorization: `Bearer ${token}` }
  const answer = await fetch(`http://127.0.0.1:${port}/api/workers/pairing-tokens`, {
    method: 'POST',
    headers,
  })
  if (!answer.ok) throw new Error(`no pairing token: ${answer.status} ${await answer.text()}`)
  return ((await answer.json()) as { token: string }).token
}
