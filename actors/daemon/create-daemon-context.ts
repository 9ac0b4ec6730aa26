/** Creates the context that every module of the worker daemon receives. */
import { isTakenOver } from '../../core/owner.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { ModuleList } from '../runtime/module.ts'
import { DAEMON } from './daemon.names.ts'
import type { DaemonContext } from './daemon-context.ts'
import type { DaemonDependencies } from './daemon-dependencies.ts'
import { HostSender } from './host-sender.ts'
import { SleepAwareTimers } from './sleep-aware-timers.ts'

export function createDaemonContext(
  dependencies: DaemonDependencies,
  finish: DaemonContext['finish'],
  system: ActorSystem,
  modules: () => ModuleList,
): DaemonContext {
  const { clock, database, identity, capabilities, concurrency, version, once } = dependencies
  const timers = new SleepAwareTimers(clock, (key, name) => modules().onTimer(key, name))
  return {
    ...dependencies,
    system,
    timers,
    hostSender: new HostSender({ timers, identity, maySend: () => !isTakenOver(database.state()) }),
    capabilities: {
      ...capabilities,
      publish: true,
      holdsKeys: true,
      // A worker for one run leaves no sandbox.
      continuesSessions: once !== true,
      maxConcurrency: concurrency,
      version,
      ...(once === true ? { once } : {}),
    },
    storeState: () => database.state(),
    requestCommit: () => system.requestCommit(),
    publish: (change) => modules().onViewChange(change),
    isServing: () => system.peek(DAEMON, DAEMON)?.value === 'serving',
    finish,
  }
}
