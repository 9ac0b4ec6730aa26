/**
 * Reads a daemon's disk from outside: its frames by lease and number, its executions by state code.
 */
import type { StoredFrame } from '../../core/lease/outbox.ts'
import { fieldsOf } from './laws/law.ts'
import type { DiskChange, SimDisk } from './sim-disk.ts'

export const FINISHED_STATE = 'd'
/** State codes in which a crash of the daemon interrupts the run. */
const RUNNING_STATES = new Set(['p', 'w', 'f', 's', 'r'])

export interface FrameChange {
  readonly key: string
  readonly leaseId: string
  readonly seq: number
  /** Null: the frame is removed from the disk. */
  readonly stored: StoredFrame | null
}

export function frameChangesIn(changes: readonly DiskChange[]): FrameChange[] {
  return changes.flatMap((change) => {
    if (change.is !== 'key-value' || change.collection !== 'frame') return []
    const [leaseId = '', digits] = change.key.split('/')
    // Only the daemon writes to this collection, and it writes only frames.
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

/** Without the damaged ones, of which a daemon knows nothing. */
export function executionRecordsOn(disk: SimDisk): ExecutionRecord[] {
  return [...(disk.snapshots.get('execution') ?? [])].flatMap(([leaseId, { value }]) => {
    if (disk.isDamaged('execution', leaseId)) return []
    const { runId, progress, stop } = fieldsOf(value)
    const { as } = { as: undefined, ...Object(stop) }
    const { prUrl } = { prUrl: undefined, ...Object(progress) }
    return {
      leaseId,
      runId: String(runId),
      isFinished: value.s === FINISHED_STATE,
      // After the loss of its lease only the costs of an execution are recovered.
      isRunning: RUNNING_STATES.has(value.s) && as !== 'nothing',
      prUrl,
    }
  })
}
