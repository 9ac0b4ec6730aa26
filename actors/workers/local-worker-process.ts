/**
 * What the host's own worker needs of the world: its process, its invitation, and the pauses between its starts.
 *
 * There is one process at a time, and only its word counts. With the host it ends at once: a run that it was
 * executing is interrupted, what was finished is on its own disk and is told when it is back.
 */
import { backoffMs } from '../../core/backoff.ts'
import { describedEnd, localEnding } from '../../core/fleet/local-worker-exit.ts'
import type {
  Cancel,
  Clock,
  LocalWorkerExit,
  LocalWorkerPort,
  LocalWorkerProcess,
  Log,
  RandomSource,
} from '../../core/ports.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import {
  LOCAL_WORKER_HOPELESS_MS,
  LOCAL_WORKER_RESTART_MS_FIRST,
  LOCAL_WORKER_RESTART_MS_MAX,
  LOCAL_WORKER_STEADY_MS,
  LOCAL_WORKER_STOP_MS_MAX,
} from '../../protocol/limits.ts'
import type { LocalWorkerEffect, LocalWorkerEvent } from './local-worker.machine.ts'
import type { Enrollment } from './pairing-tokens.ts'

export interface LocalWorkerRoomPorts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly config: () => ServiceConfig
  readonly enrollment: Enrollment
  /** Absent where this machine can't execute runs. */
  readonly port: LocalWorkerPort | undefined
  readonly tell: (event: LocalWorkerEvent) => void
}

export class LocalWorkerRoom {
  readonly #ports: LocalWorkerRoomPorts
  #daemon: LocalWorkerProcess | undefined
  #timer: Cancel = () => {}
  #isOver = false

  constructor(ports: LocalWorkerRoomPorts) {
    this.#ports = ports
  }

  /** The configuration may say something else now. */
  configure(): void {
    const { config, port, tell } = this.#ports
    const { sandbox, worker } = config()
    if (port !== undefined && worker.local && !this.#isOver)
      tell({ type: 'wanted', concurrency: sandbox.concurrency })
    else tell({ type: 'unwanted' })
  }

  do(effect: LocalWorkerEffect): void {
    this.#timer()
    switch (effect.type) {
      case 'local.start':
        void this.#start(effect.concurrency, effect.anew)
        return
      case 'local.drain':
        this.#daemon?.drain()
        return
      case 'local.rest':
        this.#tellAfter(this.#pauseMs(effect.failures, effect.hopeless), { type: 'rested' })
        return
    }
  }

  /** Ends it, in time; nothing is started any more. */
  async stop(): Promise<void> {
    this.abandon()
    const ending = this.#daemon
    if (ending === undefined) return
    const kill = this.#ports.clock.after(LOCAL_WORKER_STOP_MS_MAX, () => ending.kill())
    await ending.ended
    kill()
  }

  /** As `stop`, for those who can't wait. */
  abandon(): void {
    this.#isOver = true
    this.#timer()
    this.#daemon?.stop()
  }

  async #start(concurrency: number, anew: boolean): Promise<void> {
    const { enrollment, log, port, tell } = this.#ports
    if (port === undefined || this.#isOver) return
    const started = await port.start({ concurrency, anew, invite: () => enrollment.invite(true).token })
    if (!started.ok) {
      log.error({ reason: started.refusal.message }, 'the local worker could not be started')
      if (!this.#isOver) tell({ type: 'not started' })
      return
    }
    this.#follow(started.value)
  }

  #follow(daemon: LocalWorkerProcess): void {
    this.#daemon = daemon
    void daemon.ended.then((end) => this.#ended(daemon, end))
    if (this.#isOver) {
      daemon.stop()
      return
    }
    this.#ports.tell({ type: 'started' })
    this.#tellAfter(LOCAL_WORKER_STEADY_MS, { type: 'steady' })
  }

  #ended(daemon: LocalWorkerProcess, end: LocalWorkerExit): void {
    if (this.#daemon !== daemon) return
    this.#daemon = undefined
    if (this.#isOver) return
    const { log, tell } = this.#ports
    if (end.code === 0) log.info({}, 'the local worker stopped')
    else log.warn({ ...end, reason: describedEnd(end) }, 'the local worker ended')
    tell({ type: 'ended', ending: localEnding(end) })
  }

  /** One pause or patience at a time: each effect and each process brings its own. */
  #tellAfter(ms: number, event: LocalWorkerEvent): void {
    this.#timer()
    this.#timer = this.#ports.clock.after(ms, () => this.#ports.tell(event))
  }

  #pauseMs(failures: number, hopeless: boolean): number {
    if (hopeless) return LOCAL_WORKER_HOPELESS_MS
    const roll = this.#ports.random.fraction()
    return backoffMs(failures, LOCAL_WORKER_RESTART_MS_FIRST, LOCAL_WORKER_RESTART_MS_MAX, roll)
  }
}
