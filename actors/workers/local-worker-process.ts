/**
 * LocalWorkerSupervisor starts, watches and stops the process of the host's own worker.
 *
 * At most one process runs at a time, and it stops together with the host: its unfinished runs are interrupted, and the
 * results of finished ones stay on the worker's own disk until its next start. `local-worker.machine.ts` decides when
 * the process is started, drained and restarted.
 */
import { backoffMs } from '../../core/backoff.ts'
import { classifyExit, describeExit, localWorkerSettings } from '../../core/fleet/local-worker.ts'
import type { Cancel } from '../../core/ports/clock.ts'
import type { LocalWorkerExit, LocalWorkerProcess, LocalWorkerSettings } from '../../core/ports/machines.ts'
import type { HostContext } from '../host-context.ts'
import type { PairingTokens } from './join-keys.ts'
import { LOCAL_WORKER, type LocalWorkerEffect, type LocalWorkerEvent } from './local-worker.machine.ts'
import type { WorkerContext } from './worker.machine.ts'

/** Wait between an end of the local worker and its next start; the wait doubles. */
const LOCAL_WORKER_RESTART_MS_FIRST = 1_000
const LOCAL_WORKER_RESTART_MS_MAX = 60_000
/** Wait after an end that a new start will hardly cure. */
const LOCAL_WORKER_UNRECOVERABLE_MS = 5 * 60_000
/** After running this long, the worker counts as healthy again. */
const LOCAL_WORKER_STEADY_MS = 60_000
/** Time for the local worker to stop before the stopping host kills it. */
export const LOCAL_WORKER_STOP_MS_MAX = 3_200

export class LocalWorkerSupervisor {
  readonly #context: HostContext
  readonly #pairingTokens: PairingTokens
  #process: LocalWorkerProcess | undefined
  #timer: Cancel = () => {}
  #isStopped = false

  constructor(context: HostContext, pairingTokens: PairingTokens) {
    this.#context = context
    this.#pairingTokens = pairingTokens
  }

  #sendEvent(event: LocalWorkerEvent): void {
    this.#context.system.send(LOCAL_WORKER, LOCAL_WORKER, event)
  }

  /** Reports to the actor whether the configuration wants a local worker, and with which settings. */
  onConfigChange(): void {
    const { config, localWorkerLauncher: launcher } = this.#context
    const effective = config()
    if (launcher !== undefined && effective.worker.local && !this.#isStopped)
      this.#sendEvent({ type: 'wanted', settings: localWorkerSettings(effective) })
    else this.#sendEvent({ type: 'unwanted' })
  }

  /** Whether this host runs the worker itself. While it runs none, the worker that it ran before is an ordinary one. */
  isOwn({ id, local }: Pick<WorkerContext, 'id' | 'local'>): boolean {
    const { config, localWorkerLauncher: launcher } = this.#context
    return launcher !== undefined && config().worker.local && (local || id === this.#process?.workerId)
  }

  runEffect(effect: LocalWorkerEffect): void {
    this.#timer()
    switch (effect.type) {
      case 'local.start':
        void this.#start(effect.settings, effect.enrollAgain)
        return
      case 'local.drain':
        this.#process?.drain()
        return
      case 'local.wait to restart':
        this.#sendEventAfter(this.#restartDelayMs(effect.failures, effect.hopeless), { type: 'pause over' })
        return
    }
  }

  /** Stops the process within a time limit; no further process is started. */
  async stop(): Promise<void> {
    this.stopNow()
    const ending = this.#process
    if (ending === undefined) return
    const cancelKill = this.#context.clock.after(LOCAL_WORKER_STOP_MS_MAX, () => ending.kill())
    await ending.ended
    cancelKill()
  }

  /** As `stop`, without waiting for the process to end. */
  stopNow(): void {
    this.#isStopped = true
    this.#timer()
    this.#process?.stop()
  }

  async #start(settings: LocalWorkerSettings, enrollAgain: boolean): Promise<void> {
    const { log, localWorkerLauncher: launcher } = this.#context
    if (launcher === undefined || this.#isStopped) return
    const started = await launcher.start({
      ...settings,
      enrollAgain,
      createPairingToken: () => this.#pairingTokens.issue(true).token,
    })
    if (!started.ok) {
      log.error({ reason: started.refusal.message }, 'the local worker could not be started')
      if (!this.#isStopped) this.#sendEvent({ type: 'not started' })
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
    this.#sendEvent({ type: 'started' })
    this.#sendEventAfter(LOCAL_WORKER_STEADY_MS, { type: 'steady' })
  }

  #onEnded(daemon: LocalWorkerProcess, end: LocalWorkerExit): void {
    if (this.#process !== daemon) return
    this.#process = undefined
    if (this.#isStopped) return
    const { log } = this.#context
    if (end.code === 0) log.info({}, 'the local worker stopped')
    else log.warn({ ...end, reason: describeExit(end) }, 'the local worker ended')
    this.#sendEvent({ type: 'ended', ending: classifyExit(end) })
  }

  /** Replaces the previous timer: each effect and each new process sets its own. */
  #sendEventAfter(ms: number, event: LocalWorkerEvent): void {
    this.#timer()
    this.#timer = this.#context.clock.after(ms, () => this.#sendEvent(event))
  }

  #restartDelayMs(failures: number, hopeless: boolean): number {
    if (hopeless) return LOCAL_WORKER_UNRECOVERABLE_MS
    const roll = this.#context.random.fraction()
    return backoffMs(failures, LOCAL_WORKER_RESTART_MS_FIRST, LOCAL_WORKER_RESTART_MS_MAX, roll)
  }
}
