/** Makes the event of a run's log that tells a change of its status: why, on which worker, with which agent. */
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ReportedEvent, Run, RunStatus } from '../../protocol/run.ts'
import { chooseRepo } from '../tickets/repo.ts'
import { providerFor } from './run-options.ts'

export interface StatusFacts {
  readonly run: Run
  readonly from: RunStatus | undefined
  /** The name of the run's worker, when the fleet still knows it. */
  readonly workerName: string | undefined
  readonly config: ServiceConfig
  readonly at: string
}

export function createStatusEvent({ run, from, workerName, config, at }: StatusFacts): ReportedEvent {
  const { status } = run
  const reason = run.error ?? run.queueReason
  const provider = status === 'running' ? agentProviderOf(run, config) : undefined
  return {
    at,
    type: 'status',
    ...(from === undefined ? {} : { from }),
    to: status,
    ...(reason === undefined ? {} : { reason }),
    ...(status === 'preparing' && workerName !== undefined ? { worker: workerName } : {}),
    ...(provider === undefined ? {} : { provider }),
  }
}

function agentProviderOf(run: Run, config: ServiceConfig): AgentProvider | undefined {
  const repo = chooseRepo(run.ticket, config.repos)
  return repo.ok ? providerFor(run, repo.value.mapping, config) : undefined
}
