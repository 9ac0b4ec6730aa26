/**
 * Builds a whole worker daemon out of what it is given: clock, disk, line, hands. Nothing in here reaches for the world,
 * so a test can build many of them in one process, beside their host.
 */
import { isNativeError } from 'node:util/types'
import type { StoreState } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { ActorSystem } from '../runtime/actor-system.ts'
import type { Effect } from '../runtime/transition-output.ts'
import { daemonKinds } from './actor-kinds.ts'
import { DAEMON_TIMER, daemonEffects } from './daemon.effects.ts'
import type { DaemonEffect, DaemonEvent } from './daemon.machine.ts'
import { DAEMON, EXECUTION, LINK } from './daemon.names.ts'
import type { BuiltDaemon, DaemonEnd, DaemonParts, DaemonStatus } from './daemon-dependencies.ts'
import { Dispatches } from './dispatch-admission.ts'
import type { ExecutionEffect } from './execution.machine.ts'
import { Lives } from './execution-lookup.ts'
import { Workshop } from './execution-runner.ts'
import { Executions, TIMER } from './executions.ts'
import { POST, Post } from './frame-outbox.ts'
import type { LinkContext, LinkEffect, LinkEvent } from './host-connection.machine.ts'
import { LINE, Line } from './host-connection.ts'
import { Ear } from './host-frame-router.ts'
import { Reports } from './reports.ts'
import type { BootedEffect } from './resumed-sandbox.machine.ts'
import { BOOTED_TIMER, BootedRoom } from './resumed-sandboxes.ts'
import { Timers } from './timers.ts'

const RECLAIM = 'reclaim'
const RECLAIM_MS = 5 * 60_000

const STATES: Readonly<Record<string, DaemonStatus['state']>> = {
  serving: 'serving',
  draining: 'draining',
  reporting: 'draining',
  stopped: 'stopped',
}

export function buildDaemon(parts: DaemonParts): BuiltDaemon {
  const { clock, random, log, meters, spool, executor } = parts
  let started = false
  let ended = false

  const tell = (event: DaemonEvent) => void system.send(DAEMON, DAEMON, event)
  const tellLink = (event: LinkEvent) => void system.send(LINK, LINK, event)
  const stateOf = (kind: string) => system.peek(kind, kind)?.value

  const count = () => {
    if (stateOf(DAEMON) === undefined || stateOf(DAEMON) === 'serving') return
    const counted = executions.count()
    const booted = bootedRoom.count
    // Lives are deaf once the disk is broken: only what runs counts then.
    const running = spool.state().is === 'broken' ? workshop.occupied.size : counted.running
    tell({ type: 'counted', running: running + booted, untold: counted.untold })
  }

  const finish = (end: DaemonEnd) => {
    if (ended) return
    ended = true
    unhear()
    timers.stop()
    system.stop()
    parts.onEnd(end)
  }

  const fatal = (reason: string) => {
    if (ended) return
    log.error({ reason }, 'the worker cannot go on')
    if (system.peek(DAEMON, DAEMON) === undefined) finish({ is: 'broken', detail: reason })
    else tell({ type: 'broken', reason })
  }

  const reclaim = async () => {
    try {
      await executor.reclaim((runId) => executions.claimsRun(runId) || bootedRoom.has(runId))
    } catch (error) {
      log.error(
        { reason: isNativeError(error) ? error.message : String(error) },
        'disk could not be taken back',
      )
    }
    if (!ended) timers.in(RECLAIM, 'again', RECLAIM_MS)
  }

  const timers = new Timers(clock, (key, name) => {
    if (key === LINE) line.rang(name)
    else if (key === POST) post.rang(name)
    else if (key === DAEMON_TIMER) tell({ type: 'time is up' })
    else if (key === RECLAIM) void reclaim()
    else if (key.startsWith(BOOTED_TIMER)) bootedRoom.rang(key, name)
    else if (key.startsWith(TIMER)) executions.rang(key, name)
  })
  const post = new Post({
    facts: spool.keyValues,
    store: () => spool.state(),
    log,
    timers,
    line: () => line,
    requestCommit: () => system.requestCommit(),
  })
  const line: Line = new Line({
    timers,
    random,
    log,
    dialer: parts.dialer,
    identity: parts.identity,
    name: parts.name,
    capabilities: { ...parts.capabilities, maxConcurrency: parts.concurrency, version: parts.version },
    tellLink,
    claims: () => executions.claims(),
    views: () => bootedRoom.views,
    up: () => {
      post.lineChanged()
      bootedRoom.lineUp()
    },
    down: () => {
      post.lineChanged()
      bootedRoom.lineDown()
    },
    hear: (frame) => ear.hear(frame),
    hearUnknown: (text, error) => ear.hearUnknown(text, error),
  })

  const rooms: Readonly<Record<string, (effect: Effect) => void>> = {
    // Each is told apart by the word in front of its effects, which is what these types say.
    link: (effect) => line.do(effect as LinkEffect),
    booted: (effect) => bootedRoom.do(effect as BootedEffect),
    execution: (effect) => executions.do(effect as ExecutionEffect),
    daemon: (effect) => doDaemon(effect as DaemonEffect),
  }
  const system: ActorSystem = new ActorSystem({
    clock,
    database: spool,
    log,
    meters,
    kinds: daemonKinds,
    runEffect: (effect) => rooms[effect.type.slice(0, effect.type.indexOf('.'))]?.(effect),
    participants: [post],
    onStateChange: (change) => {
      if (change.kind === EXECUTION) executions.executionIs(change)
    },
    onFatal: fatal,
  })
  const lives = new Lives(system)
  const reports = new Reports({ log, lives, post })
  const workshop = new Workshop({ clock, log, executor, lives, reports, post, changed: count })
  const executions: Executions = new Executions({
    system,
    timers,
    line,
    lives,
    post,
    reports,
    workshop,
    changed: count,
  })
  const bootedRoom: BootedRoom = new BootedRoom({
    log,
    timers,
    line,
    system,
    executor,
    makeScreen: parts.screen,
    objection: (runId) => {
      if (stateOf(DAEMON) !== 'serving') return 'the worker is being stopped; try again once it is back'
      const isBusy = executions.claimsRun(runId) || workshop.isOccupied(runId)
      return isBusy
        ? 'something of this run is still being executed there; try again when that is over'
        : undefined
    },
    changed: count,
  })
  const dispatches = new Dispatches({
    clock,
    log,
    line,
    executions,
    booted: bootedRoom,
    executor,
    concurrency: parts.concurrency,
    isStopping: () => stateOf(DAEMON) !== 'serving',
    store: () => spool.state(),
  })
  const ear = new Ear({ log, timers, line, post, executions, dispatches, workshop, booted: bootedRoom })
  const doDaemon = daemonEffects({
    log,
    timers,
    line,
    executions,
    booted: bootedRoom,
    drainMsMax: parts.drainMsMax,
    go: () => tellLink({ type: 'go' }),
    hangUp: () => tellLink({ type: 'hang up' }),
    settled: () => system.settled(),
    tell,
    count,
    finish,
  })

  const hear = (state: StoreState) => {
    if (state.is === 'broken') system.stopAfterStoreFailure(state.reason)
    else if (state.is === 'degraded')
      log.warn({ reason: state.reason }, 'the disk is full; reports wait for room')
  }
  const unhear = spool.onState(hear)

  const start = (): Result<void> => {
    const restored = system.restore()
    if (!restored.ok) return restored
    for (const problem of restored.value.damaged)
      log.error({ problem }, 'a stored record could not be read; it was left alone')
    post.sweep()
    system.spawn(LINK, LINK, {})
    system.spawn(DAEMON, DAEMON, {})
    void reclaim()
    // It may have broken before anybody listened.
    hear(spool.state())
    return yes(undefined)
  }

  return {
    start() {
      if (started) return no('conflict', 'it was started already')
      started = true
      return start()
    },
    drain: () => tell({ type: 'drain requested' }),
    handBack: () => tell({ type: 'hand back requested' }),
    stopNow: () => tell({ type: 'stop requested' }),
    status() {
      const link = system.peek(LINK, LINK)?.context as LinkContext | undefined
      const { workerId } = line
      const state = stateOf(DAEMON)
      return {
        state: ended ? 'stopped' : state === undefined ? 'starting' : (STATES[String(state)] ?? 'stopping'),
        online: line.isUp,
        ...(workerId === undefined ? {} : { workerId }),
        ...(link?.trouble == null || line.isUp ? {} : { trouble: link.trouble }),
        executions: executions.status(),
      }
    },
  }
}
