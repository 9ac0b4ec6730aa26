/**
 * Creates the supervisor of one worker: the machine, and the effects that ask the host and drive the worker.
 *
 * The supervisor stores nothing: whose a drain is stands at the host.
 */
import type { SupervisionSettings } from '../../core/fleet/supervision.ts'
import type { ControlDatabase, Meters } from '../../core/ports.ts'
import { type ActorKind, fatalOnCrash } from '../runtime/actor-kind.ts'
import { assembleSystem } from '../runtime/assemble-system.ts'
import { defineModule, effectHandlers } from '../runtime/module.ts'
import { SupervisionEffects, type SupervisionPorts } from './supervision-effects.ts'
import {
  type SupervisorEffect,
  type SupervisorEnd,
  type SupervisorEvent,
  type SupervisorInput,
  WORKER_SUPERVISOR,
} from './worker-supervisor.events.ts'
import { workerSupervisorMachine } from './worker-supervisor.machine.ts'

export const workerSupervisorKind: ActorKind = {
  name: WORKER_SUPERVISOR,
  singleton: true,
  logic: workerSupervisorMachine,
  supervision: fatalOnCrash,
  diskless: true,
}

export interface WorkerSupervisorPorts extends SupervisionPorts {
  readonly meters: Meters
  /** Stays empty: the supervisor stores nothing. */
  readonly database: Pick<ControlDatabase, 'commit' | 'snapshots'>
  readonly settings: SupervisionSettings
  readonly onEnd: (end: SupervisorEnd) => void
}

export interface WorkerSupervisor {
  start(): void
  /** Stops a worker of its own, leaves any other worker as it is, and ends. */
  stop(): void
  /** The name of the present state. */
  state(): string
}

/** The exit code for a bug. */
const EXIT_BROKEN = 70

export function createWorkerSupervisor(ports: WorkerSupervisorPorts): WorkerSupervisor {
  const { clock, driver, settings, log } = ports
  let isEnded = false
  const finish = (end: SupervisorEnd) => {
    if (isEnded) return
    isEnded = true
    effects.stop()
    assembled.system.stop()
    ports.onEnd(end)
  }
  const assembled = assembleSystem(
    { ...ports, onFatal: (reason) => finish({ exitCode: EXIT_BROKEN, reason }) },
    [supervisionModule],
    (system) => {
      const send = (event: SupervisorEvent) => void system.send(WORKER_SUPERVISOR, WORKER_SUPERVISOR, event)
      return { runEffect: (effect: SupervisorEffect) => effects.run(effect), send }
    },
  )
  const effects = new SupervisionEffects(ports, assembled.context.send, finish)
  driver.onEnded = (result) => effects.onWorkerEnded(result)
  return {
    start() {
      const input: SupervisorInput = { settings, at: clock.monotonic() }
      log.debug({ settings: { ...settings } }, 'the supervisor starts')
      assembled.system.spawn(WORKER_SUPERVISOR, WORKER_SUPERVISOR, input)
    },
    stop: () => assembled.context.send({ type: 'stop requested' }),
    state: () =>
      isEnded ? 'ended' : String(assembled.system.peek(WORKER_SUPERVISOR, WORKER_SUPERVISOR)?.value),
  }
}

interface SupervisionContext {
  readonly runEffect: (effect: SupervisorEffect) => void
  readonly send: (event: SupervisorEvent) => void
}

const supervisionModule = defineModule<SupervisionContext>()({
  name: 'supervision',
  kinds: [workerSupervisorKind],
  create: ({ runEffect }) => ({ effects: effectHandlers<SupervisorEffect>({ supervision: runEffect }) }),
})
