/**
 * A control group for each sandbox, where this worker may make some: it counts processes and memory exactly, and ends
 * everything in it at once.
 *
 * Root makes them below a folder of its own at the top; anybody else only in a group that was handed over to the
 * worker (`Delegate=yes`), from which the worker itself has to step aside first, for a group with members can't share
 * out its controllers. Only the second hierarchy (v2) is used. Where it counts nothing there are no groups: joining one
 * costs as much as the whole rest of a start. The launcher then falls back to what processes can be limited to.
 */
import {
  accessSync,
  constants,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { isOwnerGone, ownerTag } from './owner-tag.ts'

export interface Cgroup {
  /** Before it has children. False: it stays where it is. */
  addProcess(pid: number): boolean
  kill(): void
  isEmpty(): boolean
  remove(): void
}

export interface CgroupLimits {
  readonly processes: number
  readonly memoryMib?: number
}

const GROUP_NAME = 'switchyard'
const CONTROLLERS = ['pids', 'memory'] as const
type Controller = (typeof CONTROLLERS)[number]
const MIB = 1024 * 1024

export class Cgroups {
  readonly #base: string
  readonly #controllers: ReadonlySet<Controller>
  #createdCount = 0

  /** Below a group that is ours, and has no members of its own. */
  constructor(base: string) {
    this.#base = base
    const shared = readOrEmpty(join(base, 'cgroup.subtree_control')).split(/\s+/)
    this.#controllers = new Set(CONTROLLERS.filter((name) => shared.includes(name)))
  }

  /** undefined: this worker may make none. */
  static find(euid: number): Cgroups | undefined {
    const top = mountPoint()
    if (top === undefined) return undefined
    const base = (euid === 0 ? createTopGroup(top) : undefined) ?? prepareDelegatedGroup(top)
    if (base === undefined) return undefined
    removeStaleGroups(base)
    return new Cgroups(base)
  }

  hasController(what: Controller): boolean {
    return this.#controllers.has(what)
  }

  create(name: string, limits: CgroupLimits): Cgroup | undefined {
    this.#createdCount += 1
    const folder = join(this.#base, `${ownerTag()}.${this.#createdCount}.${name}`)
    try {
      mkdirSync(folder)
      for (const [file, value] of this.#settings(limits)) writeFileSync(join(folder, file), value)
      return cgroupAt(folder)
    } catch {
      tryRemove(folder)
      return undefined
    }
  }

  /** One more than asked for: bubblewrap's own process inside; and one for its monitor outside. */
  #settings({ processes, memoryMib }: CgroupLimits): [file: string, value: string][] {
    const pids: [string, string] = ['pids.max', String(processes + 2)]
    const memory: [string, string][] = [['memory.oom.group', '1']]
    if (memoryMib !== undefined) memory.unshift(['memory.max', String(memoryMib * MIB)])
    return [...(this.hasController('pids') ? [pids] : []), ...(this.hasController('memory') ? memory : [])]
  }
}

function cgroupAt(folder: string): Cgroup {
  return {
    addProcess: (pid) => tryWrite(join(folder, 'cgroup.procs'), String(pid)),
    kill: () => void tryWrite(join(folder, 'cgroup.kill'), '1'),
    isEmpty: () => !/^populated 1$/m.test(readOrEmpty(join(folder, 'cgroup.events'))),
    remove: () => tryRemove(folder),
  }
}

// ---- finding a place -----------------------------------------------------------------------------------------------

function mountPoint(): string | undefined {
  const line = readOrEmpty('/proc/self/mountinfo')
    .split('\n')
    .find((each) => / - cgroup2 /.test(each))
  return line?.split(' ')[4]
}

function createTopGroup(top: string): string | undefined {
  const base = join(top, GROUP_NAME)
  try {
    mkdirSync(base, { recursive: true })
  } catch {
    return undefined
  }
  enableControllers(top)
  if (enableControllers(base)) return base
  tryRemove(base)
  return undefined
}

function prepareDelegatedGroup(top: string): string | undefined {
  const [, own] = /^0::(\/.+)$/m.exec(readOrEmpty('/proc/self/cgroup')) ?? []
  if (own === undefined) return undefined
  const base = join(top, own)
  const workerGroup = join(base, `${GROUP_NAME}-worker`)
  try {
    accessSync(base, constants.W_OK)
    mkdirSync(workerGroup, { recursive: true })
  } catch {
    return undefined
  }
  tryWrite(join(workerGroup, 'cgroup.procs'), String(process.pid))
  if (enableControllers(base)) return base
  // Others are still in there, or there is nothing to share out: as before.
  tryWrite(join(base, 'cgroup.procs'), String(process.pid))
  tryRemove(workerGroup)
  return undefined
}

/** One at a time: one that is missing must not keep the other away. */
function enableControllers(folder: string): boolean {
  return CONTROLLERS.map((name) => tryWrite(join(folder, 'cgroup.subtree_control'), `+${name}`)).includes(
    true,
  )
}

// ---- what a dead worker left ---------------------------------------------------------------------------------------

function removeStaleGroups(base: string): void {
  for (const name of readdirSync(base).filter(isOwnerGone)) {
    cgroupAt(join(base, name)).kill()
    tryRemove(join(base, name))
  }
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function tryWrite(path: string, value: string): boolean {
  try {
    writeFileSync(path, value)
    return true
  } catch {
    return false
  }
}

/** Goes only when nothing is in it any more; what stays is swept at a later start. */
function tryRemove(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {}
}
