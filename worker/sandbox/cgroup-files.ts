/** The types and the file access that control groups of both versions have in common. */
import { readFileSync, rmdirSync, writeFileSync } from 'node:fs'

export interface Cgroup {
  /** Moves a process that has no children yet into the group. Returns false when that failed. */
  addProcess(pid: number): boolean
  kill(): void
  isEmpty(): boolean
  remove(): void
}

export interface CgroupLimits {
  readonly processes: number
  readonly memoryMib?: number
}

export const CONTROLLERS = ['pids', 'memory'] as const
export type Controller = (typeof CONTROLLERS)[number]

/** The groups that a worker creates for its sandboxes. */
export interface ControlGroups {
  hasController(what: Controller): boolean
  /** Returns undefined when no group is needed or none can be created. */
  create(name: string, limits: CgroupLimits): Cgroup | undefined
}

export const MIB = 1024 * 1024

export function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

export function tryWrite(path: string, value: string): boolean {
  try {
    writeFileSync(path, value)
    return true
  } catch {
    return false
  }
}

/** The kernel refuses to remove a group with members; a later start removes it. */
export function tryRemove(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {}
}
