/**
 * Finds what keeps one worker from one queued run.
 *
 * Each obstacle belongs to a gate, which is how people ask for it. The first obstacle of a worker is its reason; the
 * others show what would hinder the run next.
 */
import type { GateId } from '../../protocol/explain.ts'
import type { WorkerAgents, WorkerState } from '../../protocol/worker.ts'
import type { JobNeeds } from '../run/job-needs.ts'
import { agentSubject, type ReasonTopic, topicOf, withCure } from '../run/queue-reasons.ts'
import { NO_ANSWER } from './rejection.ts'

export interface WorkerFacts {
  readonly id: string
  readonly name: string
  readonly state: WorkerState
  readonly online: boolean
  readonly max: number
  readonly used: number
  /** The worker refused a dispatch and gets none before this instant. */
  readonly pausedUntil?: number
  /** Why it refused, in its words. */
  readonly refusal?: string | undefined
  /** Why the worker gets no dispatch until the hold ends. */
  readonly hold?: string
  /** The worker's words about what its disk lacks for a run, since it has refused a dispatch for that. */
  readonly fullDisk?: string
  /** The agents of the worker; absent for a worker that does not report them and counts as having all. */
  readonly agents?: WorkerAgents | undefined
  /** Whether a control group limits the memory of a run there. A worker that does not say so cannot. */
  readonly limitsMemory?: boolean | undefined
  /** Whether the worker can publish again what a run could not publish. A worker that does not say so cannot. */
  readonly publishes?: boolean | undefined
  /** Things that the worker could not use a moment ago, such as a remote or a key, with their queue reasons. */
  readonly setbacks?: ReadonlyMap<string, { readonly reason: string }>
}

/** The reason why a run waits, and the gate at which it waits. */
export interface WaitReason {
  readonly gate: GateId
  /** The queue reason: a whole sentence. */
  readonly reason: string
  /** The command that shortens the wait. */
  readonly cure?: string
}

export interface PlacementRequest {
  readonly runId: string
  /** The worker whose sandbox the run needs. */
  readonly requiredWorker?: string
  /** The worker that may still hold the sandbox of an interrupted run, and gets the run if it can take it now. */
  readonly preferredWorker?: string
  /** The job only publishes what is in that sandbox. */
  readonly publishes?: boolean
  /** The condition that the run waits for, independent of workers. */
  readonly waitingFor?: WaitReason
  /** The needs of the run's job, from a worker and from the configuration. */
  readonly needs?: JobNeeds
}

/**
 * Returns the first reason that keeps this worker from this run. `holder`: the name of the worker that the run
 * requires.
 */
export function exclusionReason(
  worker: WorkerFacts,
  request: PlacementRequest,
  now: number,
  holder: string | undefined = request.requiredWorker,
): string | undefined {
  const lasting = worker.online ? lastingObstacle(worker, request) : undefined
  if (lasting !== undefined) return lasting.reason
  const [obstacle] = passingObstacles(worker, request, now)
  return obstacle === undefined ? undefined : sentences[obstacle](worker, holder)
}

/** Returns everything that keeps a worker from a run. Nothing else is known about an absent worker. */
export function obstaclesOf(
  worker: WorkerFacts,
  request: PlacementRequest,
  now: number,
  holder: string | undefined = request.requiredWorker,
): WorkerObstacle[] {
  const passing = passingObstacles(worker, request, now).map((is) => ({
    gate: OBSTACLE_GATES[is],
    reason: sentences[is](worker, holder),
    is,
  }))
  if (!worker.online) return passing.filter(({ is }) => is === 'away' || is === 'elsewhere')
  return [
    ...lastingObstacles(worker, request).map((found) => ({ ...found, is: found.is ?? ('lasting' as const) })),
    ...passing,
  ]
}

export type PassingObstacle = 'away' | 'draining' | 'held' | 'paused' | 'full' | 'elsewhere'

export interface WorkerObstacle extends WaitReason {
  /** `lasting`: time does not remove it. `unlimited`: neither, and the worker lacks a memory limit. */
  readonly is: PassingObstacle | 'lasting' | 'unlimited'
}

export const OBSTACLE_GATES: Readonly<Record<PassingObstacle, GateId>> = {
  away: 'workers',
  draining: 'workers',
  held: 'sandbox',
  paused: 'capacity',
  full: 'capacity',
  elsewhere: 'sandbox',
}

const sentences: Readonly<
  Record<PassingObstacle, (worker: WorkerFacts, holder: string | undefined) => string>
> = {
  away: () => 'not connected',
  draining: () => 'draining',
  held: ({ hold }) => `on hold: ${hold}`,
  paused: (worker) =>
    `${wordsOfRefusal(worker)}; asked again at ${new Date(worker.pausedUntil ?? 0).toISOString()}`,
  full: ({ max }) => (max === 0 ? 'about to end' : `all ${max} slots taken`),
  elsewhere: (_, holder) => `worker ${holder} holds the sandbox`,
}

function wordsOfRefusal({ fullDisk, refusal }: WorkerFacts): string {
  if (fullDisk !== undefined) return `its disk is full: ${fullDisk}`
  if (refusal === undefined) return 'refused a dispatch'
  return refusal === NO_ANSWER ? `gave ${NO_ANSWER}` : `refused a dispatch: ${refusal}`
}

/** Whether it is connected and does not react, as a process that was stopped. */
export const isSilent = ({ refusal }: WorkerFacts): boolean => refusal === NO_ANSWER

/** Returns the obstacles that time may remove; the first is the reason. */
export function passingObstacles(
  worker: WorkerFacts,
  request: PlacementRequest,
  now: number,
): PassingObstacle[] {
  const { requiredWorker } = request
  const found: PassingObstacle[] = []
  if (!worker.online) found.push('away')
  if (worker.state === 'draining') found.push('draining')
  if (worker.hold !== undefined) found.push('held')
  if (worker.pausedUntil !== undefined && now < worker.pausedUntil) found.push('paused')
  if (freeSlots(worker) === 0) found.push('full')
  if (requiredWorker !== undefined && requiredWorker !== worker.id) found.push('elsewhere')
  return found
}

export interface LastingObstacle extends WaitReason {
  /** The smallest rank among the workers speaks for all. */
  readonly rank: number
  readonly is?: 'unlimited'
}

const TOPIC_GATES: Readonly<Record<ReasonTopic, GateId>> = {
  repository: 'repository',
  run: 'repository',
  credential: 'credential',
  agent: 'workers',
}

export const lastingObstacle = (
  worker: WorkerFacts,
  request: PlacementRequest,
): LastingObstacle | undefined => lastingObstacles(worker, request)[0]

/**
 * Returns the obstacles that time does not remove, the smallest rank first: the worker has tried in vain, or the run
 * lacks a credential, an agent or a limit.
 */
function lastingObstacles(
  { name, agents, setbacks, limitsMemory, publishes }: WorkerFacts,
  { runId, needs, publishes: isPublishing = false }: PlacementRequest,
): LastingObstacle[] {
  const found: LastingObstacle[] = []
  if (isPublishing && publishes !== true)
    found.push({ rank: 0, gate: 'workers', reason: `worker ${name} cannot publish again: upgrade it` })
  if (needs === undefined) return found
  if (setbacks !== undefined && setbacks.size > 0) {
    for (const subject of [...needs.subjects, runSubject(runId)]) {
      const setback = setbacks.get(subject)
      if (setback !== undefined)
        found.push({ rank: 0, gate: TOPIC_GATES[topicOf(subject)], reason: setback.reason })
    }
  }
  const { missingCredential, agent } = needs
  if (agents !== undefined && missingCredential !== undefined)
    found.push({ rank: 1, gate: 'credential', reason: missingCredential })
  if (agents !== undefined && agent !== undefined && agents[agent]?.found !== true) {
    const cure = agents[agent]?.problem ?? `install ${agent} on a worker, on the PATH of the worker`
    found.push({ rank: 2, gate: 'workers', reason: withCure(agentSubject(agent), cure) })
  }
  if (needs.limitsMemory === true && limitsMemory !== true)
    found.push({ rank: 3, gate: 'workers', is: 'unlimited', reason: `worker ${name} has no memory limit` })
  return found
}

/** The subject of a setback that concerns no other run. */
export const runSubject = (runId: string): string => `run ${runId}`

/** The maximum may be lower than the number of used slots. */
export function freeSlots({ max, used }: WorkerFacts): number {
  return Math.max(0, max - used)
}
