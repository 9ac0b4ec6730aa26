/** The statuses of runs that have not ended. */
import type { RunStatus } from '../../protocol/run.ts'

export const ACTIVE: readonly RunStatus[] = ['queued', 'preparing', 'running', 'finalizing']
