/** The memory of a sandbox for which nobody has set a limit: a share of the machine, so that no agent takes all of it. */
import { totalmem } from 'node:os'
import { MIB } from './cgroup-files.ts'

/** Below this, builds fail that a machine with swap would finish. */
const SHARE_MIB_MIN = 2_048

/** Nothing where the machine cannot enforce a limit. */
export const memoryShare = (enforcedBy: 'cgroup' | 'rlimit', slots: number): { memoryMib?: number } =>
  enforcedBy === 'cgroup' ? { memoryMib: memoryShareMib(machineMemoryBytes(), slots) } : {}

export function memoryShareMib(machineBytes: number, slots: number): number {
  return Math.max(SHARE_MIB_MIN, Math.floor(machineBytes / MIB / slots))
}

/** A container may have less than its machine. */
export function machineMemoryBytes(): number {
  const allowed = process.constrainedMemory()
  return allowed > 0 ? Math.min(allowed, totalmem()) : totalmem()
}
