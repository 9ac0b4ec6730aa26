/** Creates the context that every module of the host receives. */
import { createIds } from '../../core/ids.ts'
import { heartbeatTimeoutMs } from '../../core/lease/deadline.ts'
import { createTimestamps } from '../../core/timestamps.ts'
import { DashboardBroadcast } from '../dashboard/dashboard-broadcast.ts'
import type { HostContext } from '../host-context.ts'
import { Inspection } from '../inspection/inspection.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { ModuleList } from '../runtime/module.ts'
import { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import { CurrentConfig } from '../settings/current-config.ts'
import type { HostDependencies } from './create-host.ts'
import { ROOT } from './root.machine.ts'

export function createHostContext(
  dependencies: HostDependencies,
  system: ActorSystem,
  modules: () => ModuleList,
): HostContext {
  const { clock, random, log, meters } = dependencies
  const currentConfig = new CurrentConfig(dependencies.configuration, dependencies.configText, {
    credentialRecords: dependencies.store.credentialRecords,
    log,
    onAdopted: dependencies.onConfigChange,
  })
  const config = () => currentConfig.configuration.effective
  const timeouts = () => config().fleet
  const rootState = () => system.peek(ROOT, ROOT)?.value
  return {
    clock,
    elapsedMs: dependencies.elapsedMs ?? (() => clock.monotonic()),
    random,
    log,
    meters,
    store: dependencies.store,
    system,
    timers: new MonotonicTimers(
      clock,
      () => heartbeatTimeoutMs(timeouts()),
      (key, name) => modules().onTimer(key, name),
    ),
    ids: createIds(clock, random),
    instant: createTimestamps(clock),
    currentConfig,
    config,
    timeouts,
    onConfigChange: () => modules().onConfigChange(),
    broadcast: new DashboardBroadcast(log, clock),
    requestCommit: () => system.requestCommit(),
    publish: (change) => modules().onViewChange(change),
    requestScheduling: () => modules().onViewChange({ view: 'placement' }),
    inspection: new Inspection({ clock, system, version: dependencies.health.version }),
    onInvariantViolated(law) {
      meters.count('invariant_violations_total', { law })
      log.error({ law }, 'an invariant is violated; please report this')
    },
    findTlsFault: dependencies.findTlsFault,
    trackerFor: dependencies.tracker,
    accounts: dependencies.accounts,
    bucket: dependencies.bucket,
    pullRequestApi: () => dependencies.pulls(config()),
    parsePullUrl: (url) => dependencies.parsePullUrl(config(), url),
    localWorkerLauncher: dependencies.localWorker,
    provisioning: dependencies.provisioning,
    managementPort: dependencies.port,
    version: dependencies.health.version,
    // A request may come in before the root has heard that the listeners are open.
    isOpen: () => rootState() === 'recovering' || rootState() === 'serving',
    isServing: () => rootState() === 'serving',
  }
}
