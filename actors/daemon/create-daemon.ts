/**
 * Creates a whole worker daemon from its dependencies: clock, disk, dialer, executor. Nothing in here touches the
 * operating system, so a test can run many daemons and their host in one process.
 */
import { isTakenOver } from '../../core/owner.ts'
import type { StoreState } from '../../core/ports/store.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { type AssembledSystem, assembleSystem } from '../runtime/assemble-system.ts'
import type { ModuleList } from '../runtime/module.ts'
import type { DaemonEvent } from './daemon.machine.ts'
import { DAEMON, HOST_CONNECTION } from './daemon.names.ts'
import type {
  Daemon,
  DaemonChange,
  DaemonContext,
  DaemonDependencies,
  DaemonEnd,
  DaemonStatus,
} from './daemon-context.ts'
import type { HostConnectionContext } from './host-connection.machine.ts'
import { HostSender } from './host-sender.ts'
import { daemonModules } from './modules.ts'
import { SleepAwareTimers } from './sleep-aware-timers.ts'

const STATUS_STATES: Readonly<Record<string, DaemonStatus['state']>> = {
  serving: 'serving',
  draining: 'draining',
  reporting: 'draining',
  finishing: 'draining',
  reportingOnly: 'draining',
  stopped: 'stopped',
}

export function createDaemon(dependencies: DaemonDependencies): Daemon {
  const { clock, log, meters, database } = dependencies
  let isStarted = false
  let isEnded = false

  const finish = (end: DaemonEnd) => {
    if (isEnded) return
    isEnded = true
    for (const stop of stopWatching) stop()
    modules.stop()
    context.timers.stop()
    system.stop()
    dependencies.onEnd(end)
  }
  const onFatal = (reason: string) => {
    if (isEnded) return
    log.error({ reason }, 'the worker daemon ends because of a fatal error')
    const state = database.state()
    const end: DaemonEnd = isTakenOver(state)
      ? { is: 'replaced', detail: state.reason }
      : { is: 'broken', detail: reason }
    if (system.peek(DAEMON, DAEMON) === undefined) finish(end)
    else sendDaemonEvent({ type: 'fatal error', end })
  }
  const assembled: AssembledSystem<DaemonContext> = assembleSystem(
    { clock, database, log, meters, onFatal },
    daemonModules,
    (system, modules) => createDaemonContext(dependencies, finish, system, modules),
  )
  const { system, modules, context } = assembled
  const sendDaemonEvent = (event: DaemonEvent) => void system.send(DAEMON, DAEMON, event)
  const onStoreState = (state: StoreState) => {
    if (state.is === 'broken') system.stopAfterStoreFailure(state.reason)
    else if (state.is === 'degraded')
      log.warn({ reason: state.reason }, 'the disk is full; reports wait until there is space again')
  }
  const nameDamage = createDamageNaming(dependencies)
  const stopWatching = [database.onState(onStoreState), database.damage.onChange(nameDamage)]

  const start = (): Result<void> => {
    const restored = system.restore()
    if (!restored.ok) return restored
    for (const problem of restored.value.damaged)
      log.error({ problem }, 'could not read a stored record; it stays on disk untouched')
    nameDamage()
    modules.onRestored()
    assembled.startSingletons()
    modules.start()
    // The database may have failed before anything watched it.
    onStoreState(database.state())
    return yes(undefined)
  }

  return {
    start() {
      if (isStarted) return no('conflict', 'the daemon was already started')
      isStarted = true
      return start()
    },
    drain: () => sendDaemonEvent({ type: 'drain requested' }),
    handBack: () => sendDaemonEvent({ type: 'hand back requested' }),
    stopNow: () => sendDaemonEvent({ type: 'stop requested' }),
    status: () => readStatus(assembled, isEnded),
  }
}

/** Logs each damage once, and again when it was mended meanwhile. */
function createDamageNaming({ log, database }: DaemonDependencies): (mended?: string) => void {
  const named = new Set<string>()
  return (mended) => {
    if (mended !== undefined) named.delete(mended)
    for (const damage of database.damage.all()) {
      if (!named.has(damage.id)) log.error({ ...damage }, 'a part of the data directory is damaged')
      named.add(damage.id)
    }
  }
}

function readStatus(
  { system, modules, context }: AssembledSystem<DaemonContext>,
  isEnded: boolean,
): DaemonStatus {
  const state = system.peek(DAEMON, DAEMON)?.value
  const connection = system.peek(HOST_CONNECTION, HOST_CONNECTION)?.context as
    | HostConnectionContext
    | undefined
  const { workerId, isUp } = context.hostSender
  return {
    state: isEnded
      ? 'stopped'
      : state === undefined
        ? 'starting'
        : (STATUS_STATES[String(state)] ?? 'stopping'),
    online: isUp,
    ...(workerId === undefined ? {} : { workerId }),
    ...(connection?.trouble == null || isUp ? {} : { trouble: connection.trouble }),
    executions: modules.views.executions.executions.status(),
  }
}

/** Creates the context that every module of the worker daemon receives. */
export function createDaemonContext(
  dependencies: DaemonDependencies,
  finish: DaemonContext['finish'],
  system: ActorSystem,
  modules: () => ModuleList<DaemonChange>,
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
