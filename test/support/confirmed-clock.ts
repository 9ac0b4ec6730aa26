/** A worker's clock with which its host agrees. */
import { HostClock } from '../../actors/daemon/host-clock.ts'
import type { RetentionClock } from '../../core/daemon/ports.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { createRecordingLog } from './recording-log.ts'

export const confirmedClock = (clock: Pick<Clock, 'now'>): RetentionClock => ({
  now: () => clock.now(),
  isConfirmed: () => true,
})

export const createHostClock = (clock: Clock): HostClock =>
  new HostClock({ clock, log: createRecordingLog() })
