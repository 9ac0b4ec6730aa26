/**
 * What lies on a daemon's disk, for those who look at it from outside: its frames by lease and number, its executions
 * by the codes of their states.
 */
import type { StoredFrame } from '../../core/lease/outbox.ts'
import type { Change, Disk } from './disk.ts'
import { fieldsOf } from './laws/law.ts'

export const FINISHED = 'd'
/** A daemon that died in one of these says that the run was interrupted. */
const UNDER_WAY = new Set(['p', 'w', 'f', 's', 'r'])

export interface SpoolChange {
  readonly key: string
  readonly leaseId: string
  readonly seq: number
  /** null: it leaves the disk. */
  readonly spooled: StoredFrame | null
}

export function framesIn(changes: readonly Change[]): SpoolChange[] {
  return changes.flatMap((change) => {
    if (change.is !== 'key-value' || change.shelf !== 'frame') return []
    const [leaseId = '', digits] = change.key.split('/')
    // Only the daemon writes to this shelf, and frames are all it writes.
    const spooled = change.row === null ? null : (change.row.value as StoredFrame)
    return [{ key: change.key, leaseId, seq: Number(digits), spooled }]
  })
}

export const keyOf = (leaseId: string, seq: number): string => `${leaseId}/${String(seq).padStart(10, '0')}`

export function frameOn(spool: Disk, leaseId: string, seq: number): StoredFrame | undefined {
  return spool.fact('frame', keyOf(leaseId, seq)) as StoredFrame | undefined
}

export interface Recorded {
  readonly leaseId: string
  readonly runId: string
  readonly isFinished: boolean
  readonly isUnderWay: boolean
  readonly prUrl: string | undefined
}

export function recordsOn(spool: Disk): Recorded[] {
  return [...(spool.lives.get('execution') ?? [])].map(([leaseId, { value }]) => {
    const { runId, progress } = fieldsOf(value)
    const { prUrl } = { prUrl: undefined, ...Object(progress) }
    return {
      leaseId,
      runId: String(runId),
      isFinished: value.s === FINISHED,
      isUnderWay: UNDER_WAY.has(value.s),
      prUrl,
    }
  })
}
