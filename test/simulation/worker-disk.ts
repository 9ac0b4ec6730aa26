/**
 * What lies on a daemon's disk, for those who look at it from outside: its frames by lease and number, its executions
 * by the codes of their states.
 */
import type { StoredFrame } from '../../core/lease/outbox.ts'
import { fieldsOf } from './laws/law.ts'
import type { DiskChange, SimDisk } from './sim-disk.ts'

export const FINISHED_STATE = 'd'
/** A daemon that died in one of these says that the run was interrupted. */
const RUNNING_STATES = new Set(['p', 'w', 'f', 's', 'r'])

export interface FrameChange {
  readonly key: string
  readonly leaseId: string
  readonly seq: number
  /** null: it leaves the disk. */
  readonly stored: StoredFrame | null
}

export function frameChangesIn(changes: readonly DiskChange[]): FrameChange[] {
  return changes.flatMap((change) => {
    if (change.is !== 'key-value' || change.collection !== 'frame') return []
    const [leaseId = '', digits] = change.key.split('/')
    // Only the daemon writes to this shelf, and frames are all it writes.
    const stored = change.row === null ? null : (change.row.value as StoredFrame)
    return [{ key: change.key, leaseId, seq: Number(digits), stored }]
  })
}

export const frameKey = (leaseId: string, seq: number): string =>
  `${leaseId}/${String(seq).padStart(10, '0')}`

export function storedFrame(disk: SimDisk, leaseId: string, seq: number): StoredFrame | undefined {
  return disk.keyValue('frame', frameKey(leaseId, seq)) as StoredFrame | undefined
}

export interface ExecutionRecord {
  readonly leaseId: string
  readonly runId: string
  readonly isFinished: boolean
  readonly isRunning: boolean
  readonly prUrl: string | undefined
}

export function executionRecordsOn(disk: SimDisk): ExecutionRecord[] {
  return [...(disk.snapshots.get('execution') ?? [])].map(([leaseId, { value }]) => {
    const { runId, progress } = fieldsOf(value)
    const { prUrl } = { prUrl: undefined, ...Object(progress) }
    return {
      leaseId,
      runId: String(runId),
      isFinished: value.s === FINISHED_STATE,
      isRunning: RUNNING_STATES.has(value.s),
      prUrl,
    }
  })
}
