/**
 * Tells which queued runs one more machine could take now, and whether an operator wants machines at all.
 *
 * Programs that start machines ask this. A run counts only when nothing but a missing free worker holds it back: a
 * machine that is started for any other run finds nothing to do. The host's own worker is not one of the machines.
 */
import { AGENT_PROVIDERS, type AgentProvider } from '../../protocol/agents/registry.ts'
import type { DrainHolder, WorkerState } from '../../protocol/worker.ts'
import { drainHolders } from './drain-holders.ts'
import { type PlacementRequest, runSubject, type WorkerFacts } from './obstacles.ts'

/** Facts that the machines have in common. The next one is most likely like them. */
export interface FleetExperience {
  /** The subjects of setbacks: things that a machine could not use a moment ago. */
  readonly inVain: ReadonlySet<string>
  readonly missingAgents: ReadonlySet<AgentProvider>
  /** No machine can limit the memory of a run. */
  readonly limitsNoMemory: boolean
  /** A machine is of an earlier version, which reports no agents and counts as having all, with their credentials. */
  readonly hasUnreported: boolean
}

/** `machines`: all that are enrolled, also those that are away, because the last one may just have ended. */
export function experienceOf(machines: readonly WorkerFacts[]): FleetExperience {
  const hasUnreported = machines.some(({ agents }) => agents === undefined)
  const lacks = (provider: AgentProvider) =>
    !hasUnreported && machines.every(({ agents }) => agents?.[provider]?.found !== true)
  return {
    inVain: new Set(machines.flatMap(({ setbacks }) => [...(setbacks?.keys() ?? [])])),
    missingAgents: new Set(machines.length === 0 ? [] : AGENT_PROVIDERS.filter(lacks)),
    limitsNoMemory: machines.length > 0 && machines.every(({ limitsMemory }) => limitsMemory !== true),
    hasUnreported,
  }
}

/** Whether any machine that may join now could take the run. */
export function awaitsAnyWorker(
  { runId, requiredWorker, waitingFor, needs }: PlacementRequest,
  { inVain, missingAgents, limitsNoMemory, hasUnreported }: FleetExperience,
): boolean {
  if (waitingFor !== undefined || requiredWorker !== undefined || inVain.has(runSubject(runId))) return false
  if (needs === undefined) return true
  // Credentials come from the configuration, so no machine brings the missing one.
  if (needs.missingCredential !== undefined && !hasUnreported) return false
  if (needs.agent !== undefined && missingAgents.has(needs.agent)) return false
  if (needs.limitsMemory === true && limitsNoMemory) return false
  return !needs.subjects.some((subject) => inVain.has(subject))
}

export interface DrainFacts {
  readonly state: WorkerState
  readonly drainedBy?: readonly DrainHolder[] | undefined
}

/** Whether an operator drains every machine there is. */
export function isHeldByOperator(machines: readonly DrainFacts[]): boolean {
  return machines.length > 0 && machines.every(isDrainedByOperator)
}

const isDrainedByOperator = ({ state, drainedBy }: DrainFacts): boolean =>
  state === 'draining' && drainHolders(drainedBy).includes('operator')
