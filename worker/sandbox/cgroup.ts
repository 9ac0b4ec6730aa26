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
import { isOwnerGone, ownMark } from './owner-tag.ts'

export interface Group {
  /** Before it has children. False: it stays where it is. */
  take(pid: number): boolean
  kill(): void
  isEmpty(): boolean
  remove(): void
}

export interface GroupLimits {
  readonly processes: number
  readonly memoryMib?: number
}

const OURS = 'switchyard'
const CONTROLLERS = ['pids', 'memory'] as const
type Controller = (typeof CONTROLLERS)[number]
const MIB = 1024 * 1024

export class Cgroups {
  readonly #base: string
  readonly #has: ReadonlySet<Controller>
  #made = 0

  /** Below a group that is ours, and has no members of its own. */
  constructor(base: string) {
    this.#base = base
    const shared = read(join(base, 'cgroup.subtree_control')).split(/\s+/)
    this.#has = new Set(CONTROLLERS.filter((name) => shared.includes(name)))
  }

  /** undefined: this worker may make none. */
  static find(euid: number): Cgroups | undefined {
    const top = mountPoint()
    if (top === undefined) return undefined
    const base = (euid === 0 ? atTop(top) : undefined) ?? delegated(top)
    if (base === undefined) return undefined
    sweep(base)
    return new Cgroups(base)
  }

  counts(what: Controller): boolean {
    return this.#has.has(what)
  }

  make(name: string, limits: GroupLimits): Group | undefined {
    this.#made += 1
    const folder = join(this.#base, `${ownMark()}.${this.#made}.${name}`)
    try {
      mkdirSync(folder)
      for (const [file, value] of this.#settings(limits)) writeFileSync(join(folder, file), value)
      return groupAt(folder)
    } catch {
      remove(folder)
      return undefined
    }
  }

  /** One more than asked for: bubblewrap's own process inside; and one for its monitor outside. */
  #settings({ processes, memoryMib }: GroupLimits): [file: string, value: string][] {
    const pids: [string, string] = ['pids.max', String(processes + 2)]
    const memory: [string, string][] = [['memory.oom.group', '1']]
    if (memoryMib !== undefined) memory.unshift(['memory.max', String(memoryMib * MIB)])
    return [...(this.counts('pids') ? [pids] : []), ...(this.counts('memory') ? memory : [])]
  }
}

function groupAt(folder: string): Group {
  return {
    take: (pid) => write(join(folder, 'cgroup.procs'), String(pid)),
    kill: () => void write(join(folder, 'cgroup.kill'), '1'),
    isEmpty: () => !/^populated 1$/m.test(read(join(folder, 'cgroup.events'))),
    remove: () => remove(folder),
  }
}

// ---- finding a place -----------------------------------------------------------------------------------------------

function mountPoint(): string | undefined {
  const line = read('/proc/self/mountinfo')
    .split('\n')
    .find((each) => / - cgroup2 /.test(each))
  return line?.split(' ')[4]
}

function atTop(top: string): string | undefined {
  const base = join(top, OURS)
  try {
    mkdirSync(base, { recursive: true })
  } catch {
    return undefined
  }
  share(top)
  if (share(base)) return base
  remove(base)
  return undefined
}

function delegated(top: string): string | undefined {
  const [, own] = /^0::(\/.+)$/m.exec(read('/proc/self/cgroup')) ?? []
  if (own === undefined) return undefined
  const base = join(top, own)
  const aside = join(base, `${OURS}-worker`)
  try {
    accessSync(base, constants.W_OK)
    mkdirSync(aside, { recursive: true })
  } catch {
    return undefined
  }
  write(join(aside, 'cgroup.procs'), String(process.pid))
  if (share(base)) return base
  // Others are still in there, or there is nothing to share out: as before.
  write(join(base, 'cgroup.procs'), String(process.pid))
  remove(aside)
  return undefined
}

/** One at a time: one that is missing must not keep the other away. */
function share(folder: string): boolean {
  return CONTROLLERS.map((name) => write(join(folder, 'cgroup.subtree_control'), `+${name}`)).includes(true)
}

// ---- what a dead worker left ---------------------------------------------------------------------------------------

function sweep(base: string): void {
  for (const name of readdirSync(base).filter(isOwnerGone)) {
    groupAt(join(base, name)).kill()
    remove(join(base, name))
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function write(path: string, value: string): boolean {
  try {
    writeFileSync(path, value)
    return true
  } catch {
    return false
  }
}

/** Goes only when nothing is in it any more; what stays is swept at a later start. */
function remove(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {}
}
