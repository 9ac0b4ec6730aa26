/**
 * The budgets of a run: how many bytes of events and artifacts the host stores for it (`sandbox.maxLogMib`,
 * `sandbox.maxArtifactsMib`).
 *
 * A worker may use most of what is left for one execution, so that a later execution still has a log. The host leaves
 * out what a worker reports beyond the budget. Output may fill the budget up to a reserve, which is for records: the
 * few events that tell what became of the run.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import { LOG_RECORDS_BYTES_MAX } from '../../protocol/limits.ts'
import type { ReportedEvent } from '../../protocol/run.ts'

const MIB = 1024 * 1024
/** The part of the rest of a budget that one execution may use. */
const EXECUTION_SHARE = 7 / 8
const RECORDS_SHARE = 1 / 16

export const logBudget = ({ sandbox }: ServiceConfig): number => sandbox.maxLogMib * MIB
export const artifactBudget = ({ sandbox }: ServiceConfig): number => sandbox.maxArtifactsMib * MIB

/** Whether an event is output of a process in the sandbox, which may come without end. */
export function isOutput(event: ReportedEvent): boolean {
  return event.type === 'agent' || (event.type === 'log' && event.stream !== 'system')
}

/** Returns the size of the run's log up to which this event is stored. */
export function logBytesMaxFor(event: ReportedEvent, budgetBytes: number): number {
  return isOutput(event) ? outputBytesMax(budgetBytes) : budgetBytes
}

/** Returns the bytes of events that the next execution of a run may report. */
export function executionLogBytes(budgetBytes: number, storedBytes: number): number {
  return Math.max(0, Math.floor((outputBytesMax(budgetBytes) - storedBytes) * EXECUTION_SHARE))
}

/**
 * Returns the bytes of output that an execution may report besides its records. Records first use the part of the rest
 * that the execution leaves to later ones, because the host counts them towards the limit of output.
 */
export function executionOutputBytes(executionBytes: number, recordBytes: number): number {
  const restBytes = Math.floor(executionBytes / EXECUTION_SHARE)
  return Math.max(0, Math.min(executionBytes, restBytes - recordBytes))
}

function outputBytesMax(budgetBytes: number): number {
  return budgetBytes - Math.min(LOG_RECORDS_BYTES_MAX, Math.floor(budgetBytes * RECORDS_SHARE))
}
