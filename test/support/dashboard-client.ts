/** A dashboard that keeps what it is told, and waits for what a story says it must hear. */
import type { DashboardPush } from '../../protocol/dashboard.ts'
import type { Run } from '../../protocol/run.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import { until } from './real-files.ts'
import type { ReceivedFrame } from './socket-client.ts'

/** On a machine that does many other things besides. */
export const SYSTEM_WAIT_MS_MAX = 60_000

/** What a dashboard has been told so far. */
export class DashboardClient {
  readonly #frames: readonly ReceivedFrame[]

  constructor(frames: readonly ReceivedFrame[]) {
    this.#frames = frames
  }

  /** Pushes of a kind, oldest first. */
  pushes(type: DashboardPush['type']): DashboardPush[] {
    // What else the service pushes, its own tests hold against the protocol.
    return this.#frames.filter((frame) => frame.type === type) as unknown as DashboardPush[]
  }

  get tracker(): TrackerStatus {
    const statusFrames = this.#frames.filter(({ linearStatus }) => linearStatus !== undefined)
    return statusFrames.at(-1)?.linearStatus as TrackerStatus
  }

  waitForTracker(state: TrackerStatus['state']): Promise<void> {
    return until(`the tracker is ${state}`, () => this.tracker.state === state, SYSTEM_WAIT_MS_MAX)
  }

  /** The newest word on a run. */
  run(id: string): Run | undefined {
    const pushed = this.pushes('run-updated').flatMap((push) => (push.type === 'run-updated' ? push.run : []))
    return pushed.findLast((run) => run.id === id)
  }
}
