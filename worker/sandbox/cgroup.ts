/**
 * Creates a control group (cgroup v2) for each sandbox: it limits processes and memory, and kills all members at once.
 *
 * A service creates them below the group that its manager delegates to it (`Delegate=yes`). Its programs leave that one
 * for a subgroup, because a group with members cannot enable controllers for its children. Any other root worker has a
 * folder of its own at the top. Without controllers no groups are created, since joining one doubles the start time; the
 * launcher then falls back to per-process limits.
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
import { totalmem } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { isOwnerGone, ownerTag } from './processes.ts'

const CONTROLLERS = ['pids', 'memory'] as const
export type Controller = (typeof CONTROLLERS)[number]

export interface CgroupLimits {
  readonly processes: number
  readonly memoryMib?: number
}

export interface Cgroup {
  /** Moves a process that has no children yet into the group. Returns false when that failed. */
  addProcess(pid: number): boolean
  kill(): void
  isEmpty(): boolean
  remove(): void
}

/** The groups that a worker creates for its sandboxes. */
export interface ControlGroups {
  hasController(what: Controller): boolean
  /** Returns undefined when no group is needed or none can be created. */
  create(name: string, limits: CgroupLimits): Cgroup | undefined
}

const GROUP_NAME = 'switchyard'
/** The subgroup of the programs of a service. */
const PROGRAMS = `${GROUP_NAME}-programs`

export class Cgroups implements ControlGroups {
  readonly #base: string
  readonly #controllers: ReadonlySet<Controller>
  #createdCount = 0

  /** `base` is a group of this worker without members of its own. */
  constructor(base: string) {
    this.#base = base
    const shared = readOrEmpty(join(base, 'cgroup.subtree_control')).split(/\s+/)
    this.#controllers = new Set(CONTROLLERS.filter((name) => shared.includes(name)))
  }

  /** Returns undefined when this worker may not create control groups. */
  static find(euid: number): Cgroups | undefined {
    const top = mountPoint()
    if (top === undefined) return undefined
    const base =
      findServiceGroup(top) ?? (euid === 0 ? createTopGroup(top) : undefined) ?? prepareDelegatedGroup(top)
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

  /** Allows two processes more than requested: bubblewrap's own inside the sandbox, and its monitor outside. */
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

// ---- finding the base group ------------------------------------------------------------------------------------------

function mountPoint(): string | undefined {
  const line = readOrEmpty('/proc/self/mountinfo')
    .split('\n')
    .find((each) => / - cgroup2 /.test(each))
  return line?.split(' ')[4]
}

/** The path of this process's group below the top; undefined for the top itself. */
const ownGroup = (): string | undefined => /^0::(\/.+)$/m.exec(readOrEmpty('/proc/self/cgroup'))?.[1]

/**
 * Moves this process from a group that a service manager delegates to it into a subgroup. Processes that it starts from
 * then on are members of the subgroup too. Nothing happens where the group is not this user's.
 */
export function leaveDelegatedGroup(): void {
  const [top, own] = [mountPoint(), ownGroup()]
  if (top === undefined || own === undefined || basename(own) === PROGRAMS) return
  const programs = join(top, own, PROGRAMS)
  try {
    mkdirSync(programs, { recursive: true })
  } catch {
    return
  }
  if (!tryWrite(join(programs, 'cgroup.procs'), String(process.pid))) tryRemove(programs)
}

/** The delegated group of the service that this process belongs to, as its main program or as a child of that. */
function findServiceGroup(top: string): string | undefined {
  const own = ownGroup()
  if (own === undefined || basename(own) !== PROGRAMS) return undefined
  const base = join(top, dirname(own))
  return enableControllers(base) ? base : undefined
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
  const own = ownGroup()
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
  // Other processes are still members, or no controller is available: undo the move.
  tryWrite(join(base, 'cgroup.procs'), String(process.pid))
  tryRemove(workerGroup)
  return undefined
}

/** Enables each controller with its own write, so that a missing one does not prevent the other. */
function enableControllers(folder: string): boolean {
  return CONTROLLERS.map((name) => tryWrite(join(folder, 'cgroup.subtree_control'), `+${name}`)).includes(
    true,
  )
}

// ---- groups of dead workers ------------------------------------------------------------------------------------------

function removeStaleGroups(base: string): void {
  for (const name of readdirSync(base).filter(isOwnerGone)) {
    cgroupAt(join(base, name)).kill()
    tryRemove(join(base, name))
  }
}

// ---- files of both versions ----------------------------------------------------------------------------------------

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

// ---- memory --------------------------------------------------------------------------------------------------------

/** Below this, builds fail that a machine with swap would finish. */
const SHARE_MIB_MIN = 2_048

/**
 * The memory of a sandbox for which nobody has set a limit: a share of the machine, so that no agent takes all of it.
 * A machine that cannot enforce a limit gives none.
 */
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
