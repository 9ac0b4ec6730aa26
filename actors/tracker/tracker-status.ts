/**
 * TrackerStatusReporter returns the tracker's status as people see it, and publishes it to dashboards.
 *
 * Dashboards receive a status when the connection changes. A poll alone changes only times and counts, which they ask
 * for.
 */
import type { Clock } from '../../core/ports.ts'
import { describeTrackerDisconnection } from '../../core/settings/credential-origins.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type { DashboardBroadcast } from '../dashboard/dashboard-broadcast.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import type { CurrentConfig } from '../settings/current-config.ts'
import type { PollRecord } from './ticket-intake.ts'
import { TRACKER_CONNECTION, type TrackerConnectionContext } from './tracker-connection.machine.ts'
import { trackerStatusOf } from './tracker-connection.ts'
import { TRACKER_POLL } from './tracker-poll.machine.ts'

type StateSnapshot = Pick<StateChange['after'], 'value' | 'context'>

export interface TrackerStatusPorts {
  readonly clock: Clock
  readonly system: Pick<ActorSystem, 'peek'>
  readonly broadcast: Pick<DashboardBroadcast, 'send'>
  readonly pollRecord: () => PollRecord
  readonly currentConfig: Pick<CurrentConfig, 'disconnected'>
}

export class TrackerStatusReporter {
  readonly #ports: TrackerStatusPorts

  constructor(ports: TrackerStatusPorts) {
    this.#ports = ports
  }

  current(): TrackerStatus {
    const actor = this.#ports.system.peek(TRACKER_CONNECTION, TRACKER_CONNECTION)
    return actor === undefined ? { state: 'disconnected' } : this.#statusOf(actor)
  }

  onConnectionChange(before: StateSnapshot, after: StateSnapshot): void {
    const [known, status] = [this.#statusOf(before), this.#statusOf(after)]
    if (known.state !== status.state || known.error !== status.error)
      this.#ports.broadcast.send({ type: 'linear-status', linearStatus: status })
  }

  #statusOf({ value, context }: StateSnapshot): TrackerStatus {
    const { system, clock, pollRecord } = this.#ports
    const { lastPollAt, nextPollInMs, seen, eligible } = pollRecord()
    const isWaiting = system.peek(TRACKER_POLL, TRACKER_POLL)?.value === 'waiting'
    const status = trackerStatusOf(value, context as TrackerConnectionContext)
    const reason =
      status.state === 'disconnected'
        ? describeTrackerDisconnection(this.#ports.currentConfig.disconnected)
        : undefined
    return {
      ...status,
      ...(reason === undefined ? {} : { error: reason }),
      ...(lastPollAt === undefined ? {} : { lastPollAt: instant(lastPollAt), seen, eligible }),
      ...(nextPollInMs === undefined || !isWaiting
        ? {}
        : { nextPollAt: instant(clock.now() + nextPollInMs) }),
    }
  }
}

const instant = (ms: number): string => new Date(ms).toISOString()
