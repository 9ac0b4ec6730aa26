/**
 * Ends the host exactly once: in order when a stop is requested, and by force when an orderly stop takes too long or
 * the root actor is gone.
 */
import type { Cancel, Clock, Log } from '../../core/ports.ts'
import { STOP_MS_MAX } from '../../protocol/limits.ts'
import { EXIT_BROKEN } from './root.effects.ts'
import type { RootEvent } from './root.machine.ts'

export interface HostLifecyclePorts {
  readonly clock: Clock
  readonly log: Log
  readonly sendToRoot: (event: RootEvent) => void
  readonly hasRoot: () => boolean
  /** Called once. */
  readonly onFinish: (exitCode: number, reason: string) => void
}

/** The rest of the time that a stop may take is for closing the store. */
const FORCED_STOP_MS = STOP_MS_MAX - 1_000

export class HostLifecycle {
  readonly #ports: HostLifecyclePorts
  #cancelForcedStop: Cancel | undefined
  #isFinished = false

  constructor(ports: HostLifecyclePorts) {
    this.#ports = ports
  }

  get isFinished(): boolean {
    return this.#isFinished
  }

  /** Ends in `finish`, in order or by force, within the time that a stop may take. */
  requestStop(exitCode: number, reason: string): void {
    if (this.#isFinished) return
    const { clock, sendToRoot } = this.#ports
    this.#cancelForcedStop ??= clock.after(FORCED_STOP_MS, () =>
      this.finish(EXIT_BROKEN, `${reason}; could not stop in order`),
    )
    sendToRoot({ type: 'stop requested', at: clock.now(), exitCode, reason })
  }

  onFatal(reason: string): void {
    if (this.#isFinished) return
    this.#ports.log.error({ reason }, 'the host ends because of a fatal error')
    // A crashed root can stop nothing in order any more.
    if (this.#ports.hasRoot()) this.requestStop(EXIT_BROKEN, reason)
    else this.finish(EXIT_BROKEN, reason)
  }

  finish(exitCode: number, reason: string): void {
    if (this.#isFinished) return
    this.#isFinished = true
    this.#cancelForcedStop?.()
    this.#ports.onFinish(exitCode, reason)
  }
}
