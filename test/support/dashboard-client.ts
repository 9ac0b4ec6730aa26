/** Keeps the frames that a dashboard receives, and waits for expected pushes. */
import type { DashboardPush } from '../../protocol/dashboard.ts'
import type { Run } from '../../protocol/run.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type { ReceivedFrame } from './socket-client.ts'
import { until } from './until.ts'

/** Generous, because the machine may be busy with other tests. */
export const SYSTEM_WAIT_MS_MAX = 60_000

export class DashboardClient {
  readonly #frames: readonly ReceivedFrame[]

  constructor(frames: readonly ReceivedFrame[]) {
    this.#frames = frames
  }

  /** Returns the pushes of one type, oldest first. */
  pushes(type: DashboardPush['type']): DashboardPush[] {
    // Other tests check the shape of every push against the protocol.
    return this.#frames.filter((frame) => frame.type === type) as unknown as DashboardPush[]
  }

  get tracker(): TrackerStatus {
    const statusFrames = this.#frames.filter(({ linearStatus }) => linearStatus !== undefined)
    return statusFrames.at(-1)?.linearStatus as TrackerStatus
  }

  waitForTracker(state: TrackerStatus['state']): Promise<void> {
    return until(`the tracker is ${state}`, () => this.tracker.state === state, SYSTEM_WAIT_MS_MAX)
  }

  /** Returns the newest pushed state of a run. */
  run(id: string): Run | undefined {
    const pushed = this.pushes('run-updated').flatMap((push) => (push.type === 'run-updated' ? push.run : []))
    return pushed.findLast((run) => run.id === id)
  }
}
