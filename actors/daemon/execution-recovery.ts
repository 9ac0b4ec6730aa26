/**
 * Reports what an execution has left behind whose daemon died: its sandbox, its usage and its costs.
 */
import { isNativeError } from 'node:util/types'
import type { Executor, RecoveredOutputs } from '../../core/daemon/ports.ts'
import type { Clock, Log } from '../../core/ports.ts'
import { checkExecutionProgress } from '../../protocol/actor-snapshots.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import { type ExecutionContext, isLeaseLost } from './execution.machine.ts'
import type { ExecutionLookup } from './execution-lookup.ts'
import type { FrameOutbox } from './frame-outbox.ts'

interface RecoveryPorts {
  readonly clock: Pick<Clock, 'now'>
  readonly log: Log
  readonly executor: Pick<Executor, 'recover'>
  readonly lookup: ExecutionLookup
  readonly outbox: FrameOutbox
}

export async function recoverOutputs(fields: ExecutionContext, ports: RecoveryPorts): Promise<void> {
  const { leaseId } = fields
  const { sandbox, costs = [], usage = [] } = await readOutputs(fields, ports)
  for (const snapshot of usage) ports.outbox.addReport(leaseId, { is: 'usage', snapshot }, '')
  // Costs that were reported before the daemon died are in the stored execution already.
  if (fields.costs.length === 0 && costs.length > 0) reportCosts(leaseId, costs, ports)
  ports.lookup.send(leaseId, { type: 'recovered', sandbox })
}

async function readOutputs(
  fields: ExecutionContext,
  { executor, log }: RecoveryPorts,
): Promise<RecoveredOutputs> {
  const { leaseId, runId, progress, retentionHours } = fields
  const ended = { leaseId, runId, isLeaseLost: isLeaseLost(fields) }
  try {
    const recovered = await executor.recover(ended, progress, retentionHours)
    const { sandbox } = recovered
    if (sandbox === undefined || checkExecutionProgress({ sandbox }).ok) return recovered
  } catch (error) {
    const reason = isNativeError(error) ? error.message : String(error)
    log.error({ run: runId, reason }, 'could not recover the outputs of a run')
  }
  return {}
}

function reportCosts(
  leaseId: string,
  costs: readonly CostEntry[],
  { clock, lookup, outbox }: RecoveryPorts,
): void {
  const event = { type: 'cost', at: new Date(clock.now()).toISOString() } as const
  for (const entry of costs) outbox.addReport(leaseId, { is: 'event', event: { ...event, entry } }, '')
  lookup.send(leaseId, { type: 'costs reported', costs: [...costs] })
}
