/**
 * Creates a memory group for a sandbox on a machine whose memory controller belongs to control groups of version 1.
 *
 * The groups lie below the worker's own, which the machine must let it change. Only a sandbox with a memory limit gets
 * one, because joining takes time. Processes are limited per user there.
 */
import { accessSync, constants, mkdirSync, readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import {
  type Cgroup,
  type CgroupLimits,
  type ControlGroups,
  type Controller,
  MIB,
  readOrEmpty,
  tryRemove,
  tryWrite,
} from './cgroup.ts'
import { isOwnerGone, ownerTag } from './processes.ts'

const GROUP_NAME = 'switchyard'
/** Each round kills the processes that were started since the last; a sandbox's namespace ends them all anyway. */
const KILL_ROUNDS_MAX = 5

export class MemoryGroups implements ControlGroups {
  readonly #base: string
  #createdCount = 0

  /** `base` is a group of the memory controller that this worker may change. */
  constructor(base: string) {
    this.#base = base
  }

  /** Returns undefined when this worker may not create control groups. */
  static find(): MemoryGroups | undefined {
    const own = ownMemoryGroup(readOrEmpty('/proc/self/mountinfo'), readOrEmpty('/proc/self/cgroup'))
    if (own === undefined) return undefined
    const base = join(own, GROUP_NAME)
    try {
      mkdirSync(base, { recursive: true })
      // A worker of another user may have created it for itself.
      accessSync(base, constants.R_OK | constants.W_OK | constants.X_OK)
    } catch {
      return undefined
    }
    removeStaleGroups(base)
    return new MemoryGroups(base)
  }

  hasController(what: Controller): boolean {
    return what === 'memory'
  }

  create(name: string, { memoryMib }: CgroupLimits): Cgroup | undefined {
    if (memoryMib === undefined) return undefined
    this.#createdCount += 1
    const folder = join(this.#base, `${ownerTag()}.${this.#createdCount}.${name}`)
    try {
      mkdirSync(folder)
    } catch {
      return undefined
    }
    const limit = String(memoryMib * MIB)
    if (tryWrite(join(folder, 'memory.limit_in_bytes'), limit)) {
      // Memory and swap together; absent where the kernel does not count swap.
      tryWrite(join(folder, 'memory.memsw.limit_in_bytes'), limit)
      return groupAt(folder)
    }
    tryRemove(folder)
    return undefined
  }
}

/**
 * The folder of the group that a process belongs to. A container may show only a part of the tree, so the group's path
 * counts from the root of what is mounted.
 */
export function ownMemoryGroup(mountinfo: string, cgroup: string): string | undefined {
  const own = /^\d+:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(\/.*)$/m.exec(cgroup)?.[1]
  const mount = mountinfo
    .split('\n')
    .map((line) => line.split(' - '))
    .find(([, source = '']) => /^cgroup /.test(source) && /(^|[ ,])memory(,|$)/.test(source))?.[0]
  const [, , , root, point] = mount?.split(' ') ?? []
  if (own === undefined || root === undefined || point === undefined) return undefined
  const below = relative(root, own)
  return below.startsWith('..') ? point : join(point, below)
}

function groupAt(folder: string): Cgroup {
  const members = () =>
    readOrEmpty(join(folder, 'cgroup.procs'))
      .split('\n')
      .filter((line) => line !== '')
  return {
    addProcess: (pid) => tryWrite(join(folder, 'cgroup.procs'), String(pid)),
    kill: () => {
      for (let round = 0; round < KILL_ROUNDS_MAX && members().length > 0; round++)
        for (const pid of members()) tryKill(Number(pid))
    },
    isEmpty: () => members().length === 0,
    remove: () => tryRemove(folder),
  }
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has ended.
  }
}

function removeStaleGroups(base: string): void {
  for (const name of readdirSync(base).filter(isOwnerGone)) {
    groupAt(join(base, name)).kill()
    tryRemove(join(base, name))
  }
}
