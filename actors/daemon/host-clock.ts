/**
 * HostClock compares this machine's wall clock with the host's. Code that deletes by age on a worker asks HostClock.
 *
 * The host says its time with each answer to a heartbeat. An earlier version of the host says none, so its time follows
 * from the leases that it acknowledges.
 */
import type { RetentionClock } from '../../core/daemon/ports.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { compareWithHost, type WorkerTime } from '../../core/trusted-clock.ts'
import { formatDuration } from '../../protocol/format.ts'
import type { AcknowledgedLease, HostFrameOf } from '../../protocol/frames.ts'

export interface HostClockPorts {
  /** `monotonic` includes the time that the machine sleeps. */
  readonly clock: Clock
  readonly log: Log
}

export class HostClock implements RetentionClock {
  readonly #ports: HostClockPorts
  /** The host's wall clock at an instant of this machine's monotonic one. */
  #received: { readonly wall: number; readonly at: number } | undefined
  /** The host of this connection has answered a heartbeat without its time. */
  #isSilent = false
  #isDifferenceLogged = false
  #waiting: (() => void)[] = []

  constructor(ports: HostClockPorts) {
    this.#ports = ports
  }

  /** The wall clock of this machine. */
  ownTime(): number {
    return this.#ports.clock.now()
  }

  now(): number {
    return this.#compare().now
  }

  isConfirmed(): boolean {
    return this.#compare().isConfirmed
  }

  /** Resolves when the host's clock agrees with this machine's for the first time. */
  whenConfirmed(): Promise<void> {
    return new Promise((resolve) => {
      if (this.isConfirmed()) resolve()
      else this.#waiting.push(resolve)
    })
  }

  /** A connection begins, perhaps to a host of another version. */
  onRegistered(): void {
    this.#isSilent = false
  }

  /** Returns whether ages are judged differently from now on. */
  onHeartbeatAck({ clock, clockDoubted }: HostFrameOf<'heartbeat-ack'>): boolean {
    this.#isSilent = clock === undefined
    if (clock === undefined) return false
    return this.#receive(clockDoubted === true ? undefined : clock)
  }

  /** Returns whether ages are judged differently from now on. */
  onLeaseAck([lease]: readonly AcknowledgedLease[]): boolean {
    if (!this.#isSilent || lease === undefined) return false
    return this.#receive(Date.parse(lease.expiresAt) - lease.remainingMs)
  }

  #receive(wall: number | undefined): boolean {
    const before = this.#compare()
    const isFirst = this.#received === undefined
    this.#received = wall === undefined ? undefined : { wall, at: this.#ports.clock.monotonic() }
    const time = this.#compare()
    if (wall !== undefined) this.#logDifference(time)
    if (time.isConfirmed) for (const resolve of this.#waiting.splice(0)) resolve()
    return time.isConfirmed !== before.isConfirmed || (isFirst && wall !== undefined)
  }

  #compare(): WorkerTime {
    const { clock } = this.#ports
    const hosts =
      this.#received === undefined ? undefined : this.#received.wall + clock.monotonic() - this.#received.at
    return compareWithHost(this.ownTime(), hosts)
  }

  #logDifference({ now: hosts, isConfirmed }: WorkerTime): void {
    const { log } = this.#ports
    if (isConfirmed !== this.#isDifferenceLogged) return
    this.#isDifferenceLogged = !isConfirmed
    const differsBy = formatDuration(Math.abs(this.ownTime() - hosts))
    if (isConfirmed) log.info({}, "this machine's clock agrees with the host's again")
    else
      log.warn(
        { differsBy },
        `this machine's clock and the host's differ by ${differsBy}; expired sandboxes are kept until the host has them discarded`,
      )
  }
}
