/**
 * What the host's own worker needs of the world: its process, its invitation, and the pauses between its starts.
 *
 * There is one process at a time, and only its word counts. With the host it ends at once: a run that it was
 * executing is interrupted, what was finished is on its own disk and is told when it is back.
 */
import { backoffMs } from '../../core/backoff.ts'
import { classifyExit, describeExit } from '../../core/fleet/local-worker-exit.ts'
import type {
  Cancel,
  Clock,
  LocalWorkerExit,
  LocalWorkerLauncher,
  LocalWorkerProcess,
  Log,
  RandomSource,
} from '../../core/ports.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import {
  LOCAL_WORKER_RESTART_MS_FIRST,
  LOCAL_WORKER_RESTART_MS_MAX,
  LOCAL_WORKER_STEADY_MS,
  LOCAL_WORKER_STOP_MS_MAX,
  LOCAL_WORKER_UNRECOVERABLE_MS,
} from '../../protocol/limits.ts'
import type { LocalWorkerEffect, LocalWorkerEvent } from './local-worker.machine.ts'
import type { PairingTokens } from './pairing-tokens.ts'

export interface LocalWorkerSupervisorPorts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly config: () => ServiceConfig
  readonly pairingTokens: PairingTokens
  /** Absent where this machine can't execute runs. */
  readonly launcher: LocalWorkerLauncher | undefined
  readonly sendEvent: (event: LocalWorkerEvent) => void
}

export class LocalWorkerSupervisor {
  readonly #ports: LocalWorkerSupervisorPorts
  #process: LocalWorkerProcess | undefined
  #timer: Cancel = () => {}
  #isStopped = false

  constructor(ports: LocalWorkerSupervisorPorts) {
    this.#ports = ports
  }

  /** The configuration may say something else now. */
  onConfigChange(): void {
    const { config, launcher: port, sendEvent: tell } = this.#ports
    const { sandbox, worker } = config()
    if (port !== undefined && worker.local && !this.#isStopped)
      tell({ type: 'wanted', concurrency: sandbox.concurrency })
    else tell({ type: 'unwanted' })
  }

  runEffect(effect: LocalWorkerEffect): void {
    this.#timer()
    switch (effect.type) {
      case 'local.start':
        void this.#start(effect.concurrency, effect.anew)
        return
      case 'local.drain':
        this.#process?.drain()
        return
      case 'local.rest':
        this.#sendEventAfter(this.#restartDelayMs(effect.failures, effect.hopeless), { type: 'rested' })
        return
    }
  }

  /** Ends it, in time; nothing is started any more. */
  async stop(): Promise<void> {
    this.stopNow()
    const ending = this.#process
    if (ending === undefined) return
    const cancelKill = this.#ports.clock.after(LOCAL_WORKER_STOP_MS_MAX, () => ending.kill())
    await ending.ended
    cancelKill()
  }

  /** As `stop`, for those who can't wait. */
  stopNow(): void {
    this.#isStopped = true
    this.#timer()
    this.#process?.stop()
  }

  async #start(concurrency: number, enrollAgain: boolean): Promise<void> {
    const { pairingTokens, log, launcher: port, sendEvent: tell } = this.#ports
    if (port === undefined || this.#isStopped) return
    const started = await port.start({
      concurrency,
      enrollAgain,
      createPairingToken: () => pairingTokens.issue(true).token,
    })
    if (!started.ok) {
      log.error({ reason: started.refusal.message }, 'the local worker could not be started')
      if (!this.#isStopped) tell({ type: 'not started' })
      return
    }
    this.#watch(started.value)
  }

  #watch(daemon: LocalWorkerProcess): void {
    this.#process = daemon
    void daemon.ended.then((end) => this.#onEnded(daemon, end))
    if (this.#isStopped) {
      daemon.stop()
      return
    }
    this.#ports.sendEvent({ type: 'started' })
    this.#sendEventAfter(LOCAL_WORKER_STEADY_MS, { type: 'steady' })
  }

  #onEnded(daemon: LocalWorkerProcess, end: LocalWorkerExit): void {
    if (this.#process !== daemon) return
    this.#process = undefined
    if (this.#isStopped) return
    const { log, sendEvent: tell } = this.#ports
    if (end.code === 0) log.info({}, 'the local worker stopped')
    else log.warn({ ...end, reason: describeExit(end) }, 'the local worker ended')
    tell({ type: 'ended', ending: classifyExit(end) })
  }

  /** One pause or patience at a time: each effect and each process brings its own. */
  #sendEventAfter(ms: number, event: LocalWorkerEvent): void {
    this.#timer()
    this.#timer = this.#ports.clock.after(ms, () => this.#ports.sendEvent(event))
  }

  #restartDelayMs(failures: number, hopeless: boolean): number {
    if (hopeless) return LOCAL_WORKER_UNRECOVERABLE_MS
    const roll = this.#ports.random.fraction()
    return backoffMs(failures, LOCAL_WORKER_RESTART_MS_FIRST, LOCAL_WORKER_RESTART_MS_MAX, roll)
  }
}
