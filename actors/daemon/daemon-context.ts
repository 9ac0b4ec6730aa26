/**
 * The daemon context is what every module of the worker daemon is created with: the ports of the outside world, the
 * actor system, and the few services that belong to no module.
 */
import type { StoreState } from '../../core/ports.ts'
import type { WorkerCapabilities } from '../../protocol/worker.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { defineModule, type ViewChange } from '../runtime/module.ts'
import type { DaemonDependencies, DaemonEnd } from './daemon-dependencies.ts'
import type { HostSender } from './host-sender.ts'
import type { SleepAwareTimers } from './sleep-aware-timers.ts'

export interface DaemonContext extends Omit<DaemonDependencies, 'capabilities' | 'version' | 'onEnd'> {
  readonly system: ActorSystem
  readonly timers: SleepAwareTimers
  /** Frames go out to the host here. */
  readonly hostSender: HostSender
  /** The capabilities that the worker reports at its start. */
  readonly capabilities: WorkerCapabilities
  readonly storeState: () => StoreState
  readonly requestCommit: () => void
  readonly publish: (change: ViewChange) => void
  /** The daemon is neither starting nor on its way to an end. */
  readonly isServing: () => boolean
  /** Ends the process: only the first call counts. */
  readonly finish: (end: DaemonEnd) => void
}

export const defineDaemonModule = defineModule<DaemonContext>()
