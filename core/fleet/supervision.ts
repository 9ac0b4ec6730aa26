/**
 * Decides what the supervisor of a worker does after an answer of the host: drain, stop, start, or wait.
 *
 * Figures of a disconnected worker say nothing, so nothing is stopped while it is away. The drain of an operator, or of
 * a program on the machine, is never ended, and no worker is started while one is in place. After a stop whose end is
 * unknown the worker is started before its drain is lifted, so that a late stop hits no new run (service.md, Workers 5).
 */
import type { FleetDemandResponse } from '../../protocol/demand.ts'

/** How long nothing may have been in flight before a stop. As long as a terminal without a view stays open. */
const SUPERVISOR_QUIET_MS = 30_000
/** A worker that was not stopped and is away for this long is started when there is work. */
const SUPERVISOR_ABSENT_MS = 180_000
/** A worker that was started has this long to connect. */
const SUPERVISOR_JOIN_MS = 600_000
/** A worker that is still connected this long after its stop was started by somebody else. */
const SUPERVISOR_REJOIN_MS = 60_000

/** An answer about the worker of the credential. An answer to a join key names none. */
export type OwnDemand = FleetDemandResponse & { readonly worker: NonNullable<FleetDemandResponse['worker']> }

export interface SupervisionSettings {
  /** How long a worker must be idle before it is drained. */
  readonly idleMs: number
  /** How long a worker runs at least. */
  readonly upMs: number
  /** Whether a worker that went away by itself is started again when there is work. */
  readonly startsAbsent: boolean
}

/** The memory of a supervisor between two answers. Instants are of the monotonic clock. */
export interface SupervisionMemory {
  /** Since then every answer found the worker connected with nothing in flight. */
  readonly quietSince: number | null
  /** Since then every answer found it quiet, and no run waiting for it. */
  readonly idleSince: number | null
  readonly awaySince: number | null
  /** When the present state began: serving, stopped, or waiting for the worker to connect. */
  readonly since: number
  /** An answer has found the worker away since the present state began. */
  readonly wasAway: boolean
  /** A stop was tried, and neither its success nor a later start is known. */
  readonly stopPending: boolean
  /** Failures in a row of the start or stop. */
  readonly failures: number
  /** No start and no stop before this instant. */
  readonly notBefore: number
}

/** `lift` ends the supervisor's own drain. `serve`: the worker runs. `rest`: it does not. */
export type SupervisionStep = 'drain' | 'lift' | 'stop' | 'start' | 'serve' | 'rest' | 'wait'

export const freshMemory = (now: number): SupervisionMemory => ({
  quietSince: null,
  idleSince: null,
  awaySince: null,
  since: now,
  wasAway: false,
  stopPending: false,
  failures: 0,
  notBefore: now,
})

export function observe(memory: SupervisionMemory, demand: OwnDemand, now: number): SupervisionMemory {
  const { worker } = demand
  const isQuiet = worker.connected && worker.activeRuns === 0 && worker.attachSessions === 0
  const isIdle = isQuiet && !hasWork(demand) && !isHeldByOthers(worker)
  return {
    ...memory,
    quietSince: isQuiet ? (memory.quietSince ?? now) : null,
    idleSince: isIdle ? (memory.idleSince ?? now) : null,
    awaySince: worker.connected ? null : (memory.awaySince ?? now),
    wasAway: memory.wasAway || !worker.connected,
  }
}

/** A request without an answer: what happened meanwhile is unknown, so a stop needs a new quiet time. */
export const noteSilence = (memory: SupervisionMemory): SupervisionMemory => ({ ...memory, quietSince: null })

// ---- what an answer says -------------------------------------------------------------------------------------------

type OwnWorker = OwnDemand['worker']

export const holdsOwnDrain = (worker: OwnWorker): boolean =>
  worker.state === 'draining' && (worker.drainedBy ?? []).includes('supervisor')

/** A host of an earlier version does not say who drains, so the drain may be an operator's. */
const isHeldByOthers = (worker: OwnWorker): boolean =>
  worker.state === 'draining' && (worker.drainedBy ?? ['operator']).some((holder) => holder !== 'supervisor')

const isLongerThan = (since: number | null, ms: number, now: number): boolean =>
  since !== null && now - since >= ms

// ---- decisions, one for each state ---------------------------------------------------------------------------------

export type SupervisionJudge = (
  memory: SupervisionMemory,
  demand: OwnDemand,
  settings: SupervisionSettings,
  now: number,
) => SupervisionStep

/** The supervisor has just started, and has not started the worker itself. */
export const judgeFirstAnswer: SupervisionJudge = (_memory, demand) => {
  // An earlier supervisor may have died while it stopped the worker, so starting comes before lifting.
  if (holdsOwnDrain(demand.worker)) return isHeldByOthers(demand.worker) ? 'lift' : 'start'
  return demand.worker.connected ? 'serve' : 'rest'
}

export const judgeServing: SupervisionJudge = (memory, demand, settings, now) => {
  // A request that arrived late, or an earlier supervisor, has drained a worker that is to serve.
  if (holdsOwnDrain(demand.worker)) return 'lift'
  if (isHeldByOthers(demand.worker)) return 'wait'
  const isAway = settings.startsAbsent && isLongerThan(memory.awaySince, SUPERVISOR_ABSENT_MS, now)
  if (isAway && hasWork(demand) && now >= memory.notBefore) return 'start'
  const isIdle = isLongerThan(memory.idleSince, settings.idleMs, now)
  return isIdle && isLongerThan(memory.since, settings.upMs, now) ? 'drain' : 'wait'
}

export const judgeDraining: SupervisionJudge = (memory, demand, settings, now) => {
  // An operator enabled the worker, or the request to drain it was lost.
  if (!holdsOwnDrain(demand.worker)) return 'serve'
  if (isHeldByOthers(demand.worker)) return memory.stopPending ? 'wait' : 'lift'
  if (hasWork(demand)) {
    if (!memory.stopPending) return 'lift'
    return now >= memory.notBefore ? 'start' : 'wait'
  }
  const quietMs = Math.min(SUPERVISOR_QUIET_MS, settings.idleMs)
  return isLongerThan(memory.quietSince, quietMs, now) && now >= memory.notBefore ? 'stop' : 'wait'
}

export const judgeStopped: SupervisionJudge = (memory, demand, _settings, now) => {
  if (demand.worker.connected)
    return memory.wasAway || isLongerThan(memory.since, SUPERVISOR_REJOIN_MS, now) ? 'serve' : 'wait'
  if (holdsOwnDrain(demand.worker) && !memory.stopPending) return 'lift'
  if (isHeldByOthers(demand.worker) || now < memory.notBefore) return 'wait'
  return hasWork(demand) ? 'start' : 'wait'
}

export const judgeJoining: SupervisionJudge = (memory, demand, settings, now) => {
  if (demand.worker.connected) return holdsOwnDrain(demand.worker) ? 'lift' : 'serve'
  return settings.startsAbsent && isLongerThan(memory.since, SUPERVISOR_JOIN_MS, now) ? 'rest' : 'wait'
}

/** Runs that this worker could take: runs for one more worker that no other wakes for, and runs whose sandbox it holds. */
const hasWork = ({ wanted, worker }: OwnDemand): boolean =>
  wanted > (worker.promisedRuns ?? 0) || (worker.awaitedRuns ?? 0) > 0

// ---- the host and the worker, as the supervisor reaches them -----------------------------------------------------

export type DemandRequest = 'read' | 'drain' | 'lift'

export type DemandAnswer =
  | { readonly is: 'answered'; readonly demand: OwnDemand }
  | { readonly is: 'unanswered'; readonly reason: string }

export interface DemandPort {
  /** Never throws. A request without an answer may have been carried out, also later. */
  ask(request: DemandRequest): Promise<DemandAnswer>
}

/** `exitCode`: the supervisor ends with it, because a new try cannot help. */
export type DriverResult =
  | { readonly is: 'done' }
  | { readonly is: 'failed'; readonly reason: string; readonly exitCode?: number }

export interface WorkerDriver {
  /** Whether the worker is a process of the supervisor, which then starts first and stops with it. */
  readonly ownsWorker: boolean
  /** Resolves with `done` when the worker runs or will run, and no earlier stop can still end it. */
  start(): Promise<DriverResult>
  /** Resolves with `done` when the worker has ended. */
  stop(): Promise<DriverResult>
  /** The worker ended although nobody stopped it. */
  onEnded?: (result: DriverResult) => void
  /** Ends the worker at once, while it is being stopped. */
  stopNow?(): void
}
